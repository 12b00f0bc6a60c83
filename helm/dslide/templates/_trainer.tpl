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
    {{- with $trainer.initContainers }}
    initContainers:
      {{- toYaml . | nindent 6 }}
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
          - --data={{ $trainer.data }}
          {{- with $trainer.eval }}
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
