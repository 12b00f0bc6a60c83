{{/* Names of objects. 40 characters leave room for the longest suffix in 63. */}}

{{- define "dslide.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "dslide.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "dslide.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dslide.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "dslide.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What follows the name of a service in its DNS name. */}}
{{- define "dslide.serviceDomain" -}}
{{ .Release.Namespace }}.svc{{ with .Values.clusterDomain }}.{{ . }}{{ end }}
{{- end -}}

{{/* Where clients find the coordinator. */}}
{{- define "dslide.coordinator.address" -}}
{{ include "dslide.fullname" . }}-coordinator.{{ include "dslide.serviceDomain" . }}:{{ .Values.coordinator.service.ports.grpc }}
{{- end -}}

{{/* Where shards find the coordinator: the pod itself, whether it is ready or not. */}}
{{- define "dslide.coordinator.podAddress" -}}
{{- $name := printf "%s-coordinator" (include "dslide.fullname" .) -}}
{{ $name }}-0.{{ $name }}-headless.{{ include "dslide.serviceDomain" . }}:{{ .Values.coordinator.service.ports.grpc }}
{{- end -}}

{{- define "dslide.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end -}}
{{- end -}}
