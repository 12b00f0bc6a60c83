{{/* Whether the Prometheus operator's kinds are there; "yes" or empty. */}}
{{- define "dslide.hasMonitoring" -}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}yes{{ end -}}
{{- end -}}

{{/* One endpoint of a monitor. The job's name does not depend on the release. Input: monitor, root. */}}
{{- define "dslide.monitor.endpoint" -}}
- port: admin
  path: /metrics
  interval: {{ .monitor.interval }}
  scrapeTimeout: {{ .monitor.scrapeTimeout }}
  relabelings:
    - action: replace
      sourceLabels: [{{ .componentLabel }}]
      regex: (.+)
      replacement: dslide-$1
      targetLabel: job
    # By which the alerts tell the clusters of one Prometheus apart.
    - action: replace
      replacement: {{ include "dslide.fullname" .root }}
      targetLabel: dslide_cluster
    {{- with .monitor.relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .monitor.metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
