{{/* Which ports the agent connects to, as far as its settings name them. Lists of ports come as JSON. */}}

{{/* All Kafka settings in the agent's, by their place there, as JSON. */}}
{{- define "samerack.kafkaSettings" -}}
{{- $all := dict "config.kafka" (dig "kafka" (dict) .Values.config) "config.publishing.kafka" (dig "publishing" "kafka" (dict) .Values.config) -}}
{{- range $name, $cluster := .Values.config.clusters -}}
{{- $_ := set $all (printf "config.clusters.%s.kafka" $name) (dig "kafka" (dict) $cluster) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* Those of all brokers in the settings, and those of the values. */}}
{{- define "samerack.kafkaPorts" -}}
{{- $ports := .Values.networkPolicy.kafkaPorts -}}
{{- range include "samerack.kafkaSettings" . | fromJson -}}
{{- $servers := get . "bootstrap.servers" -}}
{{- range (kindIs "slice" $servers | ternary $servers ($servers | toString | splitList ",")) -}}
{{- with trim . -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default "9092") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- uniq (sortAlpha $ports) | toJson -}}
{{- end -}}

{{/* The port of a URL: its own, or the default of its scheme. */}}
{{- define "samerack.urlPort" -}}
{{- $host := regexReplaceAll "^[a-z]+://([^/?#]*).*$" (lower .) "${1}" -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "80" "443" (hasPrefix "http:" (lower .))) -}}
{{- end -}}

{{/* Those of the endpoints that SASL OAUTHBEARER has its tokens from, and those of the values. */}}
{{- define "samerack.tokenPorts" -}}
{{- $ports := .Values.networkPolicy.tokenPorts -}}
{{- range include "samerack.kafkaSettings" . | fromJson -}}
{{- with get . "sasl.oauthbearer.token.endpoint.url" | toString -}}
{{- $ports = append $ports (include "samerack.urlPort" .) -}}
{{- end -}}
{{- end -}}
{{- uniq (sortAlpha $ports) | toJson -}}
{{- end -}}

{{/* "yes" where the agent fetches tokens from an endpoint of the reader's: those of a cloud's identity come from where the
cloud says. */}}
{{- define "samerack.fetchesTokens" -}}
{{- $found := eq (include "samerack.fromVariable" (dict "root" . "key" "sasl.oauthbearer.token.endpoint.url")) "yes" -}}
{{- $common := dig "kafka" (dict) .Values.config -}}
{{- range include "samerack.kafkaSettings" . | fromJson -}}
{{- $kafka := merge (dict) . $common -}}
{{- $mechanism := get $kafka "sasl.mechanism" | default (get $kafka "sasl.mechanisms") | toString | upper -}}
{{- $ofCloud := ne (get $kafka "sasl.oauthbearer.metadata.authentication.type" | default "none") "none" -}}
{{- $found = or $found (and (eq $mechanism "OAUTHBEARER") (not $ofCloud)) -}}
{{- end -}}
{{- if $found }}yes{{ end -}}
{{- end -}}

{{/* A rule without ports would let everything out: what the chart cannot know has to be said. */}}
{{- define "samerack.validateNetwork" -}}
{{- if and .Values.networkPolicy.enabled (eq .Values.shape "leader") -}}
{{- $hidden := include "samerack.fromVariable" (dict "root" . "key" "bootstrap.servers") -}}
{{- $known := dig "kafka" "bootstrap.servers" "" .Values.config -}}
{{- if and .Values.config.clusters (not $known) -}}
{{- $known = "all" -}}
{{- range .Values.config.clusters -}}
{{- if not (dig "kafka" "bootstrap.servers" "" .) }}{{ $known = "" }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and (or $hidden (not $known)) (not .Values.networkPolicy.kafkaPorts) -}}
{{- fail "networkPolicy is enabled, but bootstrap.servers comes from a Secret, a variable or your own ConfigMap, so the chart does not know the brokers' ports; set them: networkPolicy: {kafkaPorts: [9093]}" -}}
{{- end -}}
{{- $hidden = include "samerack.fromVariable" (dict "root" . "key" "sasl.oauthbearer.token.endpoint.url") -}}
{{- if and (include "samerack.fetchesTokens" .) (not .Values.networkPolicy.tokenPorts) (or $hidden (eq (include "samerack.tokenPorts" .) "[]")) -}}
{{- fail "networkPolicy is enabled, but the agent fetches tokens (OAUTHBEARER) from an endpoint that is not in config.kafka, so the chart does not know its port; set it: networkPolicy: {tokenPorts: [443]}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
