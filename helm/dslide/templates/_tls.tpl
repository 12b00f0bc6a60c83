{{/* The secret with the certificate of a component. Input: root, component. */}}
{{- define "dslide.tls.secret" -}}
{{- $tls := .root.Values.tls -}}
{{- if $tls.certManager.enabled -}}
{{ include "dslide.fullname" .root }}-{{ .component }}-tls
{{- else -}}
{{ default $tls.existingSecret (get $tls.existingSecrets .component) }}
{{- end -}}
{{- end -}}

{{/* Not empty: there are lists of revoked certificates. Input: root. */}}
{{- define "dslide.tls.crl" -}}
{{- $crl := .Values.tls.crl -}}
{{- if .Values.tls.enabled -}}
{{- default $crl.existingSecret $crl.configMap -}}
{{- end -}}
{{- end -}}

{{/* The mount of those lists. A folder: what is added to the secret arrives in running pods. */}}
{{- define "dslide.tls.crlMount" -}}
- name: crl
  mountPath: /etc/dslide/crl
  readOnly: true
{{- end -}}

{{/* The volume of that mount. Input: root. */}}
{{- define "dslide.tls.crlVolume" -}}
- name: crl
  {{- if .Values.tls.crl.configMap }}
  configMap:
    name: {{ .Values.tls.crl.configMap }}
  {{- else }}
  secret:
    secretName: {{ .Values.tls.crl.existingSecret }}
    defaultMode: 0440
  {{- end }}
{{- end -}}

{{/*
DNS names of a component's certificate, one per line: each name twice, without the cluster's domain
and with it where it is given. Input: root, component.
*/}}
{{- define "dslide.tls.dnsNames" -}}
{{- $full := printf "%s-%s" (include "dslide.fullname" .root) .component -}}
{{- $names := list -}}
{{- if eq .component "shard" -}}
{{- $names = list (printf "*.%s-headless" $full) -}}
{{- else if eq .component "serve" -}}
{{- $names = list $full -}}
{{- else if eq .component "data" -}}
{{- $servers := dict -}}
{{- include "dslide.data.collect" (dict "root" .root "servers" $servers) -}}
{{- range $own, $ignored := $servers }}{{ $names = append $names (printf "%s-%s" (include "dslide.fullname" $.root) $own) }}{{ end -}}
{{- else if eq .component "coordinator" -}}
{{- $names = list $full (printf "*.%s-headless" $full) -}}
{{- end -}}
{{- range $name := $names }}
- {{ printf "%s.%s.svc" $name $.root.Release.Namespace | quote }}
{{- with $.root.Values.clusterDomain }}
- {{ printf "%s.%s.svc.%s" $name $.root.Release.Namespace . | quote }}
{{- end }}
{{- end }}
{{- $external := .root.Values.shard.external }}
{{- if and (eq .component "shard") $external.enabled }}
{{- $host := splitList ":" $external.address | first }}
{{- range $number := until (ternary (int .root.Values.shard.replicaCount) 1 (contains "{shard}" $host)) }}
- {{ replace "{shard}" (toString $number) $host | quote }}
{{- end }}
{{- end }}
{{- if eq .component "coordinator" }}
- localhost
{{- with .root.Values.tls.certManager.extraDnsNames }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}
