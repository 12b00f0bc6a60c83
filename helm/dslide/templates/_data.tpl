{{/*
Sets in `servers` the Jobs of trainers whose data a server of data reads, by the server's name, which
is that of its objects after the release's. Prints nothing. Input: root, servers.
*/}}
{{- define "dslide.data.collect" -}}
{{- $jobs := dict }}
{{- include "dslide.trainer.collect" (dict "root" .root "jobs" $jobs) }}
{{- range $key, $trainer := $jobs }}
{{- if $trainer.dataset.server.enabled }}
{{- $_ := set $.servers (include "dslide.data.name" $key) $trainer }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Name of the server of data of a Job. Input: the Job's name. */}}
{{- define "dslide.data.name" -}}
{{- list "data" . | compact | join "-" -}}
{{- end -}}

{{/*
Sets in `values` a trainer that reads from its server alone: addresses in the place of sources, and
nothing that opens those. Trainers end when their server has other data, so other data is another Job.
Input: root, key, trainer, values.
*/}}
{{- define "dslide.data.trainer" -}}
{{- $name := printf "%s-%s" (include "dslide.fullname" .root) (include "dslide.data.name" .key) }}
{{- $url := printf "grpc://%s.%s:%v" $name (include "dslide.serviceDomain" .root) .trainer.dataset.server.service.ports.grpc }}
{{- $trainer := omit .trainer "data" "eval" "dataset" }}
{{- $_ := set $trainer "data" (printf "%s/data" $url) }}
{{- $_ := set $trainer "eval" (ternary (printf "%s/eval" $url) "" (ne (include "dslide.dataset.eval" .trainer) "")) }}
{{- $_ := set $trainer "dataset" (dict "generate" (dict)) }}
{{- $data := list (include "dslide.dataset.flags" .trainer) (pick .trainer.dataset "claim" "image" "generate") .trainer.dataset.server.extraArgs }}
{{- $_ := set $trainer "podAnnotations" (merge (dict "checksum/data" (toJson $data | sha256sum)) .trainer.podAnnotations) }}
{{- $_ := set .values "trainer" $trainer }}
{{- end -}}

{{/* Command line of a server of data. Input: root, trainer. */}}
{{- define "dslide.data.args" -}}
{{- $server := .trainer.dataset.server -}}
{{- with include "dslide.cli.flags" .root }}
{{ . }}
{{- end }}
- data
- serve
{{ include "dslide.dataset.flags" .trainer }}
- --listen={{ .root.Values.listenHost }}:{{ $server.service.ports.grpc }}
- --admin={{ .root.Values.listenHost }}:{{ $server.service.ports.admin }}
- --drain-delay={{ int $server.drain.delay }}s
- --drain-timeout={{ int $server.drain.timeout }}s
{{- if .root.Values.tls.enabled }}
- --tls-cluster={{ .root.Values.tls.clusterName }}
- --authorization={{ .root.Values.tls.authorization }}
{{- end }}
{{- end -}}

{{- define "dslide.data.env" -}}
{{- include "dslide.cli.env" .root }}
{{- include "dslide.threads.env" (dict "container" "data" "values" .trainer.dataset.server) }}
{{- include "dslide.dataset.env" .trainer.dataset }}
{{- with .trainer.dataset.server.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
