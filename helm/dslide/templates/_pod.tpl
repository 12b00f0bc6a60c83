{{/* What the pods of all components have in common. Input: root, component, values. */}}
{{- define "dslide.pod.common" -}}
serviceAccountName: {{ dig "serviceAccountName" "" (default (dict) .values) | default (include "dslide.serviceAccountName" .root) }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- $secrets := concat .root.Values.global.imagePullSecrets .root.Values.imagePullSecrets }}
{{- with $secrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods may run. Input: root, component, values. */}}
{{- define "dslide.pod.scheduling" -}}
{{- with .values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- $selector := default (dict) .values.nodeSelector }}
{{- with .root.Values.image.architecture }}
{{- $selector = merge (dict) $selector (dict "kubernetes.io/arch" .) }}
{{- end }}
{{- with $selector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $preset := default "none" .values.podAntiAffinityPreset }}
{{- if .values.affinity }}
affinity:
  {{- toYaml .values.affinity | nindent 2 }}
{{- else if eq $preset "soft" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "dslide.identity" . | nindent 14 }}
{{- else if eq $preset "hard" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "dslide.identity" . | nindent 12 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels:
        {{- include "dslide.identity" $ | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Probes of a server. Input: values. */}}
{{- define "dslide.pod.probes" -}}
{{- range $name := list "startupProbe" "readinessProbe" "livenessProbe" }}
{{- with get $.values $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Writable and secret paths of every container. Input: root. */}}
{{- define "dslide.pod.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .root.Values.tls.enabled }}
- name: tls
  mountPath: /etc/dslide/tls
  readOnly: true
{{- end }}
{{- if include "dslide.tls.crl" .root }}
{{ include "dslide.tls.crlMount" .root }}
{{- end }}
{{- end -}}

{{/* The volumes of those mounts. Input: root, component. No subPath: a mounted secret follows its rotation. */}}
{{- define "dslide.pod.volumes" -}}
{{- $tmp := dict }}
{{- range $name, $value := .root.Values.tmp }}
{{- if $value }}{{ $_ := set $tmp $name $value }}{{ end }}
{{- end }}
- name: tmp
  emptyDir:
    {{- toYaml $tmp | nindent 4 }}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "dslide.tls.secret" . }}
    defaultMode: 0440
{{- end }}
{{- if include "dslide.tls.crl" .root }}
{{ include "dslide.tls.crlVolume" .root }}
{{- end }}
{{- end -}}

{{/* A server's volumes. Input: root, component, values. */}}
{{- define "dslide.server.volumes" -}}
{{ include "dslide.pod.volumes" . }}
- name: config
  configMap:
    name: {{ include "dslide.fullname" .root }}-{{ .component }}
{{- if not .values.persistence.enabled }}
- name: data
  emptyDir: {}
{{- end }}
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dslide.server.mounts" -}}
{{ include "dslide.pod.mounts" . }}
- name: config
  mountPath: /etc/dslide/config
  readOnly: true
- name: data
  mountPath: /var/lib/dslide
{{- with .values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The main container of a component after its command. Input: root, values.
The image's entrypoint is replaced by the program itself: signals reach it without a shell between.
*/}}
{{- define "dslide.container.common" -}}
image: {{ include "dslide.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .root.Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* volumeClaimTemplates of a server. Input: root, component, values. Labels that never change, see "dslide.identity". */}}
{{- define "dslide.server.claims" -}}
{{- if .values.persistence.enabled -}}
persistentVolumeClaimRetentionPolicy:
  {{- toYaml .values.persistence.retentionPolicy | nindent 2 }}
volumeClaimTemplates:
  - metadata:
      name: data
      labels:
        {{- include "dslide.identity" . | nindent 8 }}
      {{- with .values.persistence.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      accessModes:
        {{- toYaml .values.persistence.accessModes | nindent 8 }}
      resources:
        requests:
          storage: {{ .values.persistence.size | quote }}
      {{- with default .root.Values.global.storageClass .values.persistence.storageClass }}
      storageClassName: {{ ternary "" . (eq . "-") | quote }}
      {{- end }}
{{- end }}
{{- end -}}
