{{/*
Sets in `jobs` the values of each Job of trainers, by its name: that of `trainer` has none, those of
`trainers` have what they say in the place of what `trainer` says, of `dataset` key by key. Prints
nothing. Input: root, jobs.
*/}}
{{- define "dslide.trainer.collect" -}}
{{- if .root.Values.trainer.enabled }}{{ $_ := set .jobs "" .root.Values.trainer }}{{ end }}
{{- range $name, $own := .root.Values.trainers }}
{{- if and (kindIs "map" $own) (dig "enabled" true (default (dict) $own)) }}
{{- $values := dict }}
{{- range $key, $value := $.root.Values.trainer }}{{ $_ := set $values $key $value }}{{ end }}
{{- $_ := set $values "job" $name }}
{{- range $key, $value := $own }}{{ $_ := set $values $key $value }}{{ end }}
{{- $dataset := dict }}
{{- range $key, $value := $.root.Values.trainer.dataset }}{{ $_ := set $dataset $key $value }}{{ end }}
{{- range $key, $value := default (dict) $own.dataset }}{{ $_ := set $dataset $key $value }}{{ end }}
{{- $_ := set $values "dataset" $dataset }}
{{- $_ := set $.jobs $name $values }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Sets in `values` what the templates of a Job see: those of the release, with its own trainer and image. Input: root, trainer, values. */}}
{{- define "dslide.trainer.values" -}}
{{- $values := .values }}
{{- $image := dict }}
{{- range $key, $value := .root.Values }}{{ $_ := set $values $key $value }}{{ end }}
{{- range $key, $value := .root.Values.image }}{{ $_ := set $image $key $value }}{{ end }}
{{- if hasKey .trainer.image "tag" }}{{ $_ := set $image "digest" "" }}{{ end }}
{{- range $key, $value := .trainer.image }}{{ $_ := set $image $key $value }}{{ end }}
{{- $_ := set $values "image" $image }}
{{- $_ := set $values "trainer" .trainer }}
{{- end -}}

{{/* The volume of data, if there is one. Input: trainer.dataset. */}}
{{- define "dslide.trainer.dataset" -}}
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

{{/* Init containers that make data. Input: root, component, values. */}}
{{- define "dslide.trainer.generators" -}}
{{- $generate := .values.dataset.generate }}
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
  {{- with $.values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: dataset
      mountPath: /data
{{- end }}
{{- end }}
{{- end -}}

{{- define "dslide.trainer.env" -}}
{{- include "dslide.cli.env" . }}
{{- if dig "limits" "cpu" "" (default (dict) .Values.trainer.resources) }}
- name: DSLIDE_THREADS
  valueFrom:
    resourceFieldRef:
      containerName: trainer
      resource: limits.cpu
{{- end }}
{{- with .Values.trainer.dataset }}
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
{{- end }}
{{- with .Values.trainer.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
What cannot be changed in a Job. Its name carries a hash of this text: an upgrade that changes it
makes a new Job, whose trainers join the same training run. All else of a Job is changed in place.
*/}}
{{- define "dslide.trainer.fixed" -}}
{{- $trainer := .Values.trainer -}}
{{- $part := dict "root" . "component" "trainer" "values" $trainer -}}
completionMode: Indexed
backoffLimitPerIndex: {{ int $trainer.backoffLimitPerIndex }}
{{- with $trainer.successPolicy }}
successPolicy:
  {{- toYaml . | nindent 2 }}
{{- end }}
podFailurePolicy:
  rules:
    # A node that is taken away is no failure: the trainer starts anew elsewhere.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
    # Wrong flags or input, and lost state, stay wrong however often they are tried.
    - action: FailJob
      onExitCodes:
        containerName: trainer
        operator: In
        values: [2, 5]
template:
  metadata:
    labels:
      {{- include "dslide.podLabels" $part | nindent 6 }}
      {{- with $trainer.podLabels }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with mergeOverwrite (dict) .Values.commonAnnotations $trainer.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: Never
    {{- include "dslide.pod.common" $part | nindent 4 }}
    {{- with include "dslide.pod.scheduling" $part | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    terminationGracePeriodSeconds: {{ int $trainer.terminationGracePeriodSeconds }}
    {{- $generators := include "dslide.trainer.generators" $part | trim }}
    {{- if or $generators $trainer.initContainers }}
    initContainers:
      {{- with $generators }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with $trainer.initContainers }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- end }}
    containers:
      - name: trainer
        {{- include "dslide.container.common" $part | nindent 8 }}
        command: [dslide]
        args:
          {{- with include "dslide.cli.flags" . }}
          {{- . | nindent 10 }}
          {{- end }}
          - --timeout={{ $trainer.timeout }}
          - train
          - --cluster={{ include "dslide.coordinator.address" . }}
          - --job={{ $trainer.job }}
          - --data={{ default "/data/train.txt" $trainer.data }}
          {{- with default (ternary "/data/test.txt" "" (gt (int $trainer.dataset.generate.evalPoints) 0)) $trainer.eval }}
          - --eval={{ . }}
          {{- end }}
          {{- if $trainer.model }}
          - --model=/etc/dslide/model/model.json
          {{- end }}
          - --admin={{ .Values.listenHost }}:{{ $trainer.service.ports.admin }}
          {{- with $trainer.extraArgs }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        {{- with include "dslide.trainer.env" . | trim }}
        env:
          {{- . | nindent 10 }}
        {{- end }}
        {{- if or $trainer.dataset.existingSecret $trainer.extraEnvFrom }}
        envFrom:
          {{- with $trainer.dataset.existingSecret }}
          - secretRef:
              name: {{ . }}
          {{- end }}
          {{- with $trainer.extraEnvFrom }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        {{- end }}
        ports:
          - name: admin
            containerPort: {{ $trainer.service.ports.admin }}
        {{- with $trainer.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        volumeMounts:
          {{- include "dslide.pod.mounts" $part | nindent 10 }}
          {{- if $trainer.model }}
          - name: model
            mountPath: /etc/dslide/model
            readOnly: true
          {{- end }}
          {{- if include "dslide.trainer.dataset" $trainer.dataset }}
          - name: dataset
            mountPath: /data
            readOnly: true
          {{- end }}
          {{- if $trainer.dataset.cacheClaim }}
          - name: data-cache
            mountPath: /var/cache/dslide
          {{- end }}
          {{- with $trainer.extraVolumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
      {{- with $trainer.sidecars }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    volumes:
      {{- include "dslide.pod.volumes" $part | nindent 6 }}
      {{- if $trainer.model }}
      - name: model
        configMap:
          name: {{ include "dslide.fullname" . }}-model-{{ toJson $trainer.model | sha256sum | trunc 8 }}
      {{- end }}
      {{- with include "dslide.trainer.dataset" $trainer.dataset | trim }}
      - name: dataset
        {{- . | nindent 8 }}
      {{- end }}
      {{- with $trainer.dataset.cacheClaim }}
      - name: data-cache
        persistentVolumeClaim:
          claimName: {{ . }}
      {{- end }}
      {{- with $trainer.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}

{{/* What can be changed while the trainers run: their number among it. */}}
{{- define "dslide.trainer.changeable" -}}
{{- $trainer := .Values.trainer -}}
completions: {{ int $trainer.replicaCount }}
parallelism: {{ int $trainer.replicaCount }}
maxFailedIndexes: {{ if kindIs "invalid" $trainer.maxFailedIndexes }}{{ sub (int $trainer.replicaCount) 1 }}{{ else }}{{ int $trainer.maxFailedIndexes }}{{ end }}
{{- if not (kindIs "invalid" $trainer.activeDeadlineSeconds) }}
activeDeadlineSeconds: {{ int $trainer.activeDeadlineSeconds }}
{{- end }}
{{- if not (kindIs "invalid" $trainer.ttlSecondsAfterFinished) }}
ttlSecondsAfterFinished: {{ int $trainer.ttlSecondsAfterFinished }}
{{- end }}
{{- if not (kindIs "invalid" $trainer.suspend) }}
suspend: {{ $trainer.suspend }}
{{- end }}
{{- end -}}
