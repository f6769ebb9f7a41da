{{/* The agent's settings as the chart completes them: what follows from the shape and from mounted secrets. The reader's
own words in `config` always win. */}}

{{- define "samerack.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $kafka := get $config "kafka" | default dict -}}
{{- $tls := .Values.kafka.tls -}}
{{- if $tls.secret -}}
{{- $derived := dict -}}
{{- if include "samerack.usesSasl" (dict "root" . "kafka" $kafka "variable" "SAMERACK_KAFKA") -}}
{{- $_ := set $derived "security.protocol" "SASL_SSL" -}}
{{- else if not .Values.existingConfigMap.name -}}
{{- $_ := set $derived "security.protocol" "SSL" -}}
{{- end -}}
{{- if not (hasKey $kafka "security.protocol") -}}
{{- range $name, $cluster := $config.clusters -}}
{{- $own := get $cluster "kafka" | default dict -}}
{{- if include "samerack.usesSasl" (dict "root" $ "kafka" $own "variable" (printf "SAMERACK_CLUSTERS__%s__KAFKA" (upper $name))) -}}
{{- $_ := set $cluster "kafka" (merge (dict) $own (dict "security.protocol" "SASL_SSL")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $item := dict "ssl.ca.location" $tls.ca "ssl.certificate.location" $tls.certificate "ssl.key.location" $tls.key -}}
{{- if $item }}{{- $_ := set $derived $key (printf "%s/%s" (include "samerack.tlsFolder" $) $item) }}{{- end -}}
{{- end -}}
{{- $kafka = merge (dict) $kafka $derived -}}
{{- end -}}
{{- $_ := set $config "kafka" $kafka -}}
{{- /* a kubelet and Prometheus come from outside the pod; a sidecar is asked from within */ -}}
{{- $web := dict "host" (ternary "0.0.0.0" "127.0.0.1" (eq .Values.shape "leader")) "port" 9464 -}}
{{- $web = merge (dict) (get $config "web" | default dict) $web -}}
{{- if eq .Values.shape "leader" -}}
{{- /* others in the cluster ask by the Service's name; that of its namespace alone has a dot, as a stranger's has */ -}}
{{- $_ := set $web "hosts" (append (get $web "hosts" | default list) (printf "%s.%s" (include "samerack.fullname" .) .Release.Namespace) | uniq) -}}
{{- end -}}
{{- $_ := set $config "web" $web -}}
{{- $events := dict "path" (printf "%s/events.db" (include "samerack.stateFolder" .)) -}}
{{- $_ := set $config "events" (merge (dict) (get $config "events" | default dict) $events) -}}
{{- if .Values.pipeline.enabled -}}
{{- /* not all cores of a node, which Spark sees in a container that may use one */ -}}
{{- $_ := set $config "pipeline" (merge (dict) (get $config "pipeline" | default dict) (dict "master" "local[2]")) -}}
{{- end -}}
{{- with include "samerack.volumeFolder" . -}}
{{- $tables := dict "tables" (printf "%s/tables" .) -}}
{{- $_ := set $config "pipeline" (merge (dict) (get $config "pipeline" | default dict) $tables) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* (root, kafka, variable): "yes" where Kafka settings, or those in variables that begin with that name, have a SASL
mechanism. */}}
{{- define "samerack.usesSasl" -}}
{{- $found := or (hasKey .kafka "sasl.mechanism") (hasKey .kafka "sasl.mechanisms") -}}
{{- if eq .variable "SAMERACK_KAFKA" -}}
{{- $found = or $found (hasKey .root.Values.kafka.secrets "sasl.mechanism") (hasKey .root.Values.kafka.secrets "sasl.mechanisms") -}}
{{- end -}}
{{- $names := list (printf "%s__SASL_MECHANISM" .variable) (printf "%s__SASL_MECHANISMS" .variable) -}}
{{- range .root.Values.extraEnv -}}
{{- $whole := and (eq (get . "name") $.variable) (contains "sasl.mechanism" (get . "value" | toString)) -}}
{{- $found = or $found (has (get . "name") $names) $whole -}}
{{- end -}}
{{- if $found }}yes{{ end -}}
{{- end -}}

{{- define "samerack.tlsFolder" -}}/etc/samerack-tls{{- end -}}
{{- define "samerack.stateFolder" -}}/var/lib/samerack-state{{- end -}}
{{- define "samerack.configFile" -}}/etc/samerack/samerack.yaml{{- end -}}

{{/* Where the pipeline's pods mount their volume; empty without one. */}}
{{- define "samerack.volumeFolder" -}}
{{- if and .Values.pipeline.enabled (or .Values.pipeline.volume.create .Values.pipeline.volume.existingClaim) -}}
/var/lib/samerack
{{- end -}}
{{- end -}}

{{- define "samerack.configMapName" -}}
{{- default (printf "%s-config" (include "samerack.fullname" .)) .Values.existingConfigMap.name -}}
{{- end -}}

{{- define "samerack.port" -}}{{ (include "samerack.config" . | fromYaml).web.port | int }}{{- end -}}

{{/* "yes" where something outside the pod may reach the agent's port. */}}
{{- define "samerack.reachable" -}}
{{- $host := (include "samerack.config" . | fromYaml).web.host -}}
{{- if not (or (hasPrefix "127." $host) (has $host (list "localhost" "::1"))) }}yes{{ end -}}
{{- end -}}

{{/* "yes" where the agent asks the Kubernetes API for its own rack. */}}
{{- define "samerack.asksForItself" -}}
{{- if has "kubernetes" (dig "pod" "sources" (list) .Values.config) }}yes{{ end -}}
{{- end -}}

{{/* "yes" where the agent asks the Kubernetes API for the racks of members. */}}
{{- define "samerack.asksForMembers" -}}
{{- if dig "pod" "kubernetes_members" false .Values.config }}yes{{ end -}}
{{- end -}}

{{- define "samerack.asksApi" -}}
{{- if or (include "samerack.asksForItself" .) (include "samerack.asksForMembers" .) }}yes{{ end -}}
{{- end -}}

{{/* (root, key): "yes" where a variable of the pod gives a setting of Kafka's, also of one of several clusters, so that the
chart does not know it. */}}
{{- define "samerack.fromVariable" -}}
{{- $name := "[A-Za-z0-9]+(_[A-Za-z0-9]+)*" -}}
{{- $names := printf "^SAMERACK_(CLUSTERS(__%s)?|(CLUSTERS__%s__)?KAFKA(__%s)?)$" $name $name (.key | upper | replace "." "_") -}}
{{- $found := hasKey .root.Values.kafka.secrets .key -}}
{{- range .root.Values.extraEnv -}}
{{- $found = or $found (regexMatch $names (get . "name" | toString)) -}}
{{- end -}}
{{- if $found }}yes{{ end -}}
{{- end -}}

{{/* "yes" where the agent observes several clusters, and leads in none: nothing says which of them it is for. */}}
{{- define "samerack.observesSeveral" -}}
{{- $one := .Values.config.cluster -}}
{{- range .Values.extraEnv }}{{ $one = or $one (eq (get . "name" | toString) "SAMERACK_CLUSTER") }}{{ end -}}
{{- if and .Values.config.clusters (not $one) }}yes{{ end -}}
{{- end -}}

{{/* "yes" where any setting may come from what the chart cannot see. */}}
{{- define "samerack.hasOtherSources" -}}
{{- if or .Values.envFrom .Values.existingConfigMap.name }}yes{{ end -}}
{{- end -}}

{{/* "yes" where the settings want a password that is nowhere to be seen. */}}
{{- define "samerack.lacksPassword" -}}
{{- $kafka := dig "kafka" (dict) .Values.config -}}
{{- $mechanism := get $kafka "sasl.mechanism" | default (get $kafka "sasl.mechanisms") | toString | upper -}}
{{- $given := or (include "samerack.hasOtherSources" .) .Values.config.clusters (include "samerack.fromVariable" (dict "root" . "key" "sasl.password")) -}}
{{- if and (or (eq $mechanism "PLAIN") (hasPrefix "SCRAM-" $mechanism)) (not $given) }}yes{{ end -}}
{{- end -}}
