{{/*
Flags that both servers have. The data directory is a folder of the volume and not its root, where
file systems keep lost+found, which a shard would take for a model. Input: root, values (those of the component).
*/}}
{{- define "dslide.server.flags" -}}
- --config=/etc/dslide/config/dslide.conf
- --listen={{ .root.Values.listenHost }}:{{ .values.service.ports.grpc }}
- --admin={{ .root.Values.listenHost }}:{{ .values.service.ports.admin }}
- --data-dir=/var/lib/dslide/data
- --drain-delay={{ int .values.drain.delay }}s
- --drain-timeout={{ int .values.drain.timeout }}s
{{- if .root.Values.tls.enabled }}
- --tls-cert=/etc/dslide/tls/tls.crt
- --tls-key=/etc/dslide/tls/tls.key
- --tls-ca=/etc/dslide/tls/ca.crt
{{- if include "dslide.tls.crl" .root }}
- --tls-crl-dir=/etc/dslide/crl
{{- end }}
- --tls-reload-interval={{ .root.Values.tls.reloadInterval }}
- --tls-cluster={{ .root.Values.tls.clusterName }}
- --authorization={{ .root.Values.tls.authorization }}
{{- else }}
- --insecure
{{- end }}
{{- include "dslide.log.flags" .root }}
{{- end -}}

{{/* What is not as the programs have it by themselves, each line with its break before it. */}}
{{- define "dslide.log.flags" -}}
{{- with .Values.logLevel }}
- --log-level={{ . }}
{{- end }}
{{- if ne .Values.logFormat "text" }}
- --log-format={{ .Values.logFormat }}
{{- end }}
{{- with .Values.tracing.endpoint }}
- --otlp-endpoint={{ . }}
{{- end }}
{{- end -}}

{{/* Global flags of the CLI in pods of the chart. */}}
{{- define "dslide.cli.flags" -}}
{{- $sample := ternary (printf "\n- --trace-sample=%v" .Values.tracing.sample) "" (ne .Values.tracing.endpoint "") -}}
{{- printf "%s%s%s" (ternary "" "- --insecure" .Values.tls.enabled) (include "dslide.log.flags" .) $sample | trim -}}
{{- end -}}

{{/* Environment by which the CLI finds its certificate. */}}
{{- define "dslide.cli.env" -}}
{{- if .Values.tls.enabled -}}
- name: DSLIDE_TLS_CERT
  value: /etc/dslide/tls/tls.crt
- name: DSLIDE_TLS_KEY
  value: /etc/dslide/tls/tls.key
- name: DSLIDE_TLS_CA
  value: /etc/dslide/tls/ca.crt
{{- if include "dslide.tls.crl" . }}
- name: DSLIDE_TLS_CRL_DIR
  value: /etc/dslide/crl
{{- end }}
{{- end }}
{{- end -}}

{{/* Environment by which a container computes with the processors of its limit. Input: container, values. */}}
{{- define "dslide.threads.env" -}}
{{- if dig "limits" "cpu" "" (default (dict) .values.resources) }}
- name: DSLIDE_THREADS
  valueFrom:
    resourceFieldRef:
      containerName: {{ .container }}
      resource: limits.cpu
{{- end }}
{{- end -}}

{{/* Flags, and keys of the configuration file, that the chart sets itself for a component. Input: its name. */}}
{{- define "dslide.ownedFlags" -}}
tls-cert tls-key tls-ca tls-crl-dir insecure admin {{ if eq . "trainer" -}}
cluster job data eval model timeout
{{- else if eq . "serve" -}}
cluster name model-dir listen http http-plaintext mode drain-delay drain-timeout tls-cluster authorization
{{- else if eq . "data" -}}
data eval listen drain-delay drain-timeout tls-cluster authorization
{{- else -}}
config listen data-dir drain-delay drain-timeout tls-reload-interval tls-cluster authorization {{ if eq . "shard" -}}
coordinator advertise shard-id durability threads memory-budget
{{- else -}}
shards lease-timeout checkpoint-interval checkpoint-keep checkpoint-full-every
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration file from a map. Numbers as JSON writes them: in full, not as 5e+06. */}}
{{- define "dslide.configFile" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end -}}

{{/* A Kubernetes quantity (4Gi) or a size of the programs (4GiB) as a whole number of MiB; empty when it is neither. */}}
{{- define "dslide.mebibytes" -}}
{{- $text := ternary . (toJson .) (kindIs "string" .) -}}
{{- $binary := dict "Ki" 0.0009765625 "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0 -}}
{{- $decimal := dict "" 0.00000095367431640625 "k" 0.00095367431640625 "M" 0.95367431640625 "G" 953.67431640625 "T" 953674.31640625 -}}
{{- if regexMatch "^[0-9]+(\\.[0-9]+)?((Ki|Mi|Gi|Ti)B?|k|M|G|T|B)?$" $text -}}
{{- $unit := regexFind "[A-Za-z]+$" $text -}}
{{- $factor := get (merge $binary $decimal) (trimSuffix "B" $unit) -}}
{{- mulf (float64 (trimSuffix $unit $text)) $factor | floor | int64 -}}
{{- end -}}
{{- end -}}

{{/*
The shards' budget for rows and hash tables: nine tenths of the memory limit, less the process's other
budgets (its defaults, which are parts of the limit, where shard.config names none). The process would
find the same by itself; told here, it is in the pod's description.
*/}}
{{- define "dslide.shard.memoryBudget" -}}
{{- $shard := .Values.shard -}}
{{- $limit := dig "limits" "memory" "" (default (dict) $shard.resources) -}}
{{- if $shard.memoryBudget -}}
{{- $shard.memoryBudget -}}
{{- else if $limit -}}
{{- $mebibytes := include "dslide.mebibytes" $limit -}}
{{- if not $mebibytes -}}
{{- fail (printf "shard.resources.limits.memory is %q: give it with Mi or Gi, or set shard.memoryBudget" (toString $limit)) -}}
{{- end -}}
{{- $others := 0 -}}
{{- range $name, $share := dict "context-budget" (list 512 8) "reply-budget" (list 256 16) "queue-budget" (list 128 32) "bulk-budget" (list 1024 8) -}}
{{- $size := printf "%dMiB" (min (first $share) (div (int64 $mebibytes) (last $share))) -}}
{{- $others = add $others (int64 (include "dslide.mebibytes" (default $size (get $shard.config $name)))) -}}
{{- end -}}
{{- $rows := sub (div (mul (int64 $mebibytes) 9) 10) $others -}}
{{- if lt $rows 64 -}}
{{- fail (printf "shard.resources.limits.memory of %s MiB leaves %d MiB for rows, as %d MiB are for steps, requests and answers: raise it, lower context-budget, reply-budget, queue-budget or bulk-budget in shard.config, or set shard.memoryBudget" $mebibytes $rows $others) -}}
{{- end -}}
{{- $rows -}}MiB
{{- end -}}
{{- end -}}

{{/* Grace period: what ends a server in good order, and 15 s for the rest. Input: the component's values. */}}
{{- define "dslide.drainSeconds" -}}
{{- add (int .drain.delay) (int .drain.timeout) (int .drain.save) -}}
{{- end -}}

{{- define "dslide.gracePeriod" -}}
{{- if kindIs "invalid" .terminationGracePeriodSeconds -}}
{{- add (int (include "dslide.drainSeconds" .)) 15 -}}
{{- else -}}
{{- int .terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* Refuses flags that the chart sets itself. Input: place, owned, args. */}}
{{- define "dslide.checkArgs" -}}
{{- range .args }}
{{- $flag := regexReplaceAll "^--?([^=]*).*$" . "${1}" }}
{{- if has $flag $.owned }}
{{- fail (printf "%s.extraArgs: --%s is set by the chart already: use the chart's own value for it" $.place $flag) }}
{{- end }}
{{- end }}
{{- end -}}
