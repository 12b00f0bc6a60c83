{{/*
Sets in `jobs` the values of each Job of trainers, by its name: that of `trainer` has none, those of
`trainers` have what they say in the place of what `trainer` says, of `dataset` and of its `server` key
by key. Prints nothing. Input: root, jobs.
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
{{- $server := dict }}
{{- range $key, $value := $.root.Values.trainer.dataset.server }}{{ $_ := set $server $key $value }}{{ end }}
{{- range $key, $value := dig "dataset" "server" (dict) $own }}{{ $_ := set $server $key $value }}{{ end }}
{{- $_ := set $dataset "server" $server }}
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

{{- define "dslide.trainer.env" -}}
{{- include "dslide.cli.env" . }}
{{- include "dslide.threads.env" (dict "container" "trainer" "values" .Values.trainer) }}
{{- include "dslide.dataset.env" .Values.trainer.dataset }}
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
    {{- $generators := include "dslide.dataset.generators" (dict "root" . "dataset" $trainer.dataset "resources" $trainer.resources) | trim }}
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
          {{- include "dslide.dataset.flags" $trainer | nindent 10 }}
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
        {{- with include "dslide.dataset.envFrom" (dict "dataset" $trainer.dataset "values" $trainer) | trim }}
        envFrom:
          {{- . | nindent 10 }}
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
          {{- with include "dslide.dataset.mounts" $trainer.dataset | trim }}
          {{- . | nindent 10 }}
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
      {{- with include "dslide.dataset.volumes" $trainer.dataset | trim }}
      {{- . | nindent 6 }}
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
