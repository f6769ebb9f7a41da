{{/* Which ports the agent connects to, as far as its settings tell. Lists of ports come as JSON. */}}

{{/* Those of all brokers in the settings, and those of the values. */}}
{{- define "samerack.kafkaPorts" -}}
{{- $ports := .Values.networkPolicy.kafkaPorts -}}
{{- $publishing := dig "publishing" "kafka" "bootstrap.servers" "" .Values.config -}}
{{- range list (dig "kafka" "bootstrap.servers" "" .Values.config) $publishing -}}
{{- range (kindIs "slice" . | ternary . (toString . | splitList ",")) -}}
{{- with trim . -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default "9092") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- uniq (sortAlpha $ports) | toJson -}}
{{- end -}}

{{/* Those of the endpoints that SASL OAUTHBEARER has its tokens from, and those of the values. */}}
{{- define "samerack.tokenPorts" -}}
{{- $ports := .Values.networkPolicy.tokenPorts -}}
{{- range list (dig "kafka" (dict) .Values.config) (dig "publishing" "kafka" (dict) .Values.config) -}}
{{- with get . "sasl.oauthbearer.token.endpoint.url" | toString | lower -}}
{{- $host := regexReplaceAll "^[a-z]+://([^/?#]*).*$" . "${1}" -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "80" "443" (hasPrefix "http:" .))) -}}
{{- end -}}
{{- end -}}
{{- uniq (sortAlpha $ports) | toJson -}}
{{- end -}}

{{/* "yes" where the agent fetches tokens, from wherever. */}}
{{- define "samerack.fetchesTokens" -}}
{{- $found := eq (include "samerack.fromVariable" (dict "root" . "key" "sasl.oauthbearer.token.endpoint.url")) "yes" -}}
{{- range list (dig "kafka" (dict) .Values.config) (dig "publishing" "kafka" (dict) .Values.config) -}}
{{- $mechanism := get . "sasl.mechanism" | default (get . "sasl.mechanisms") | toString | upper -}}
{{- $found = or $found (eq $mechanism "OAUTHBEARER") -}}
{{- end -}}
{{- if $found }}yes{{ end -}}
{{- end -}}

{{/* A rule without ports would let everything out: what the chart cannot know has to be said. */}}
{{- define "samerack.validateNetwork" -}}
{{- if and .Values.networkPolicy.enabled (eq .Values.shape "leader") -}}
{{- $hidden := include "samerack.fromVariable" (dict "root" . "key" "bootstrap.servers") -}}
{{- if and (or $hidden (not (dig "kafka" "bootstrap.servers" "" .Values.config))) (not .Values.networkPolicy.kafkaPorts) -}}
{{- fail "networkPolicy is enabled, and bootstrap.servers comes from a Secret, a variable or a ConfigMap of yours, so that the chart does not know the brokers' ports; name them: networkPolicy: {kafkaPorts: [9093]}" -}}
{{- end -}}
{{- $hidden = include "samerack.fromVariable" (dict "root" . "key" "sasl.oauthbearer.token.endpoint.url") -}}
{{- if and (include "samerack.fetchesTokens" .) (not .Values.networkPolicy.tokenPorts) (or $hidden (eq (include "samerack.tokenPorts" .) "[]")) -}}
{{- fail "networkPolicy is enabled, and the agent fetches tokens (OAUTHBEARER) from an endpoint that is not in config.kafka, so that the chart does not know its port; name it: networkPolicy: {tokenPorts: [443]}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
