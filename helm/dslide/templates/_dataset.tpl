{{/* Data of trainers, in the pods that read it: those of the trainers, or that of their server of data. */}}

{{/* The volume of data, if there is one. Input: trainer.dataset. */}}
{{- define "dslide.dataset.source" -}}
{{- if .claim }}
persistentVolumeClaim:
  claimName: {{ .claim }}
  readOnly: true
{{- else if .image }}
image:
  reference: {{ .image }}
{{- else if int .generate.points }}
emptyDir: {}
{{- end }}
{{- end -}}

{{/* That volume and the cache's. Input: trainer.dataset. */}}
{{- define "dslide.dataset.volumes" -}}
{{- with include "dslide.dataset.source" . | trim }}
- name: dataset
  {{- . | nindent 2 }}
{{- end }}
{{- with .cacheClaim }}
- name: data-cache
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- end -}}

{{/* Their mounts. Input: trainer.dataset. */}}
{{- define "dslide.dataset.mounts" -}}
{{- if include "dslide.dataset.source" . }}
- name: dataset
  mountPath: /data
  readOnly: true
{{- end }}
{{- if .cacheClaim }}
- name: data-cache
  mountPath: /var/cache/dslide
{{- end }}
{{- end -}}

{{/* The test data, if there is any. Input: trainer. */}}
{{- define "dslide.dataset.eval" -}}
{{ default (ternary "/data/test.txt" "" (gt (int .dataset.generate.evalPoints) 0)) .eval }}
{{- end -}}

{{/* What data there is. Input: trainer. */}}
{{- define "dslide.dataset.flags" -}}
- --data={{ default "/data/train.txt" .data }}
{{- with include "dslide.dataset.eval" . }}
- --eval={{ . }}
{{- end }}
{{- end -}}

{{/* How it is read. Input: trainer.dataset. */}}
{{- define "dslide.dataset.env" -}}
{{- if .cacheClaim }}
- name: DSLIDE_DATA_CACHE
  value: /var/cache/dslide/data
{{- end }}
{{- with .cacheSize }}
- name: DSLIDE_DATA_CACHE_SIZE
  value: {{ . | quote }}
{{- end }}
{{- with .patience }}
- name: DSLIDE_DATA_PATIENCE
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Who reads it, and the pod's own sources of variables. Input: dataset, values. */}}
{{- define "dslide.dataset.envFrom" -}}
{{- with .dataset.existingSecret }}
- secretRef:
    name: {{ . }}
{{- end }}
{{- with .values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Init containers that make data. Input: root, dataset, resources. */}}
{{- define "dslide.dataset.generators" -}}
{{- $generate := .dataset.generate }}
{{- $parts := list (dict "name" "train" "first" 0 "points" $generate.points) (dict "name" "test" "first" $generate.points "points" $generate.evalPoints) }}
{{- range $parts }}
{{- if int .points }}
- name: generate-{{ .name }}
  {{- include "dslide.container.common" $ | nindent 2 }}
  command: [dslide]
  args:
    - data
    - gen
    - --output=/data/{{ .name }}.txt
    - --first-point={{ int .first }}
    - --points={{ int .points }}
    {{- with $generate.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: dataset
      mountPath: /data
{{- end }}
{{- end }}
{{- end -}}
