{{/* Command line of the servers of predictions. */}}
{{- define "dslide.serve.args" -}}
{{- $serve := .Values.serve -}}
{{- with include "dslide.cli.flags" . }}
{{ . }}
{{- end }}
- serve
- --cluster={{ include "dslide.coordinator.address" . }}
- --name={{ $serve.model }}
{{- with $serve.modelDir }}
- --model-dir={{ . }}
{{- end }}
- --listen={{ .Values.listenHost }}:{{ $serve.service.ports.grpc }}
- --admin={{ .Values.listenHost }}:{{ $serve.service.ports.admin }}
{{- if $serve.http.enabled }}
- --http={{ .Values.listenHost }}:{{ $serve.service.ports.http }}
- --http-plaintext
{{- else }}
- --http=
{{- end }}
- --mode={{ $serve.mode }}
{{- /* Its cluster may come, and its model be trained, long after it. */}}
- --wait=24h
- --drain-delay={{ int $serve.drain.delay }}s
- --drain-timeout={{ int $serve.drain.timeout }}s
{{- if .Values.tls.enabled }}
- --tls-cluster={{ .Values.tls.clusterName }}
- --authorization={{ .Values.tls.authorization }}
{{- end }}
{{- end -}}

{{- define "dslide.serve.env" -}}
{{- include "dslide.cli.env" . }}
{{- include "dslide.threads.env" (dict "container" "serve" "values" .Values.serve) }}
{{- with .Values.serve.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
