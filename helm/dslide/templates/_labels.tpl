{{/*
Labels. "identity" is what selectors and volume claims carry: it must not change over the life of a
release, so neither versions nor commonLabels are in it. Input: root, component; server, where a
component has several of them with different data.
*/}}
{{- define "dslide.identity" -}}
app.kubernetes.io/name: {{ include "dslide.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .server }}
dslide/server: {{ . }}
{{- end }}
{{- end -}}

{{- define "dslide.labels" -}}
{{ include "dslide.identity" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: no versions either, so that a new chart alone restarts nothing. Input: root, component. */}}
{{- define "dslide.podLabels" -}}
{{ include "dslide.identity" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object. Input: root, component, name; labels and annotations of its own. */}}
{{- define "dslide.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "dslide.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with mergeOverwrite (dict) .root.Values.commonAnnotations (default (dict) .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
