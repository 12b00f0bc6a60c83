{{/*
Ports of a server's services. Input: root, values; outside, of one that is reached from outside the
cluster: that lacks the admin page, which is plain HTTP; nodePort.
*/}}
{{- define "dslide.service.ports" -}}
- name: grpc
  port: {{ .values.service.ports.grpc }}
  targetPort: grpc
  appProtocol: {{ ternary "grpc" "kubernetes.io/h2c" .root.Values.tls.enabled }}
  {{- with .nodePort }}
  nodePort: {{ . }}
  {{- end }}
{{- if not .outside }}
- name: admin
  port: {{ .values.service.ports.admin }}
  targetPort: admin
  appProtocol: http
{{- end }}
{{- end -}}

{{/* Of a service that may be reached from outside. Input: its values. */}}
{{- define "dslide.service.outside" -}}
{{- with .loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .loadBalancerClass }}
loadBalancerClass: {{ . }}
{{- end }}
{{- with .externalTrafficPolicy }}
externalTrafficPolicy: {{ . }}
{{- end }}
{{- with .ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The headless service of a server: every pod has a name of its own, ready or not. Input: root, component, values. */}}
{{- define "dslide.service.headless" -}}
apiVersion: v1
kind: Service
metadata:
  {{- $name := printf "%s-%s-headless" (include "dslide.fullname" .root) .component }}
  {{- $labels := mergeOverwrite (dict "dslide/scrape" "true") (default (dict) .labels) }}
  {{- include "dslide.metadata" (dict "root" .root "component" .component "name" $name "labels" $labels "annotations" .annotations) | nindent 2 }}
spec:
  type: ClusterIP
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "dslide.identity" . | nindent 4 }}
  ports:
    {{- include "dslide.service.ports" . | nindent 4 }}
{{- end -}}
