{{/* What the schema of the values cannot say: rules between values, each with its cure. */}}

{{- define "samerack.validate" -}}
{{- $needsAgent := or (eq .Values.shape "leader") (not .Values.pipeline.enabled) -}}
{{- if and $needsAgent (not .Values.image.repository) -}}
{{- fail "image.repository is empty; build the image (docker build), push it to your registry and name it here" -}}
{{- end -}}
{{- $kafka := dig "kafka" (dict) .Values.config -}}
{{- if not (or (get $kafka "bootstrap.servers") (hasKey .Values.kafka.secrets "bootstrap.servers")) -}}
{{- fail "config.kafka: bootstrap.servers is missing; give config: {kafka: {bootstrap.servers: HOST:PORT}}" -}}
{{- end -}}
{{- if and (eq .Values.shape "leader") (not .Values.config.groups) (not (dig "traffic" "groups" (list) .Values.config)) -}}
{{- fail "config.groups is empty; name the consumer groups to lead, config: {groups: [orders]}, or those to observe in config.traffic.groups" -}}
{{- end -}}
{{- range $place, $part := dict "config.kafka" $kafka "config.publishing.kafka" (dig "publishing" "kafka" (dict) .Values.config) "config.pipeline.conf" (dig "pipeline" "conf" (dict) .Values.config) -}}
{{- range $key, $_ := $part -}}
{{- if regexMatch "(?i)(password|secret|jaas|\\.pem$|\\.token$)" $key -}}
{{- fail (printf "%s.%s would stand in a ConfigMap for everybody to read; put it into a Secret and name that in %s" $place $key (ternary (printf "kafka.secrets: {%s: {name: SECRET, key: KEY}}" $key) "extraEnv" (eq $place "config.kafka"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (ne .Values.shape "leader") (gt (int .Values.replicas) 1) -}}
{{- fail "replicas is for shape: leader; a sidecar runs once in every pod of its application" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (hasKey .Values.config "election") (not (dig "election" "group" "samerack" .Values.config)) -}}
{{- fail "replicas is 2 and config.election.group is empty: two agents would fence each other; name a group for their election, or set replicas to 1" -}}
{{- end -}}
{{- if eq (dig "web" "port" 9464 .Values.config | int) 0 -}}
{{- fail "config.web.port is 0, which takes any free port; probes and Prometheus need one that they know" -}}
{{- end -}}
{{- if and (eq .Values.shape "leader") (not (include "samerack.reachable" .)) -}}
{{- fail "config.web.host is loopback: the probes of the kubelet could not reach the agent; leave it out (0.0.0.0), or use :: for IPv6" -}}
{{- end -}}
{{- if and .Values.kafka.tls.certificate (not .Values.kafka.tls.key) -}}
{{- fail "kafka.tls.certificate is set and kafka.tls.key is not; a certificate of the agent's own needs its key" -}}
{{- end -}}
{{- if and (ne .Values.shape "leader") (include "samerack.asksApi" .) .Values.rbac.create (not .Values.serviceAccount.name) -}}
{{- fail "config.pod asks the Kubernetes API, and serviceAccount.name is empty; name the service account that your application's pods run as" -}}
{{- end -}}
{{- if eq .Values.shape "sidecar" -}}
{{- if and (or .Values.monitoring.podMonitor.enabled .Values.monitoring.annotations) (not (include "samerack.reachable" .)) -}}
{{- fail "monitoring is to scrape sidecars, whose port is on loopback; set config: {web: {host: 0.0.0.0}}" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled (not .Values.monitoring.podMonitor.selector) -}}
{{- fail "monitoring.podMonitor.selector is empty; give the labels of your application's pods" -}}
{{- end -}}
{{- end -}}
{{- if .Values.pipeline.enabled -}}
{{- if not .Values.pipeline.image.repository -}}
{{- fail "pipeline.image.repository is empty; name an image with samerack[pipeline], Java 17 or newer and the jars of Spark" -}}
{{- end -}}
{{- if not (or (include "samerack.volumeFolder" .) (dig "pipeline" "tables" "" .Values.config)) -}}
{{- fail "pipeline: the tables have no place; set config.pipeline.tables to an address in an object store, or pipeline.volume" -}}
{{- end -}}
{{- if and .Values.pipeline.report.enabled (not (include "samerack.volumeFolder" .)) -}}
{{- fail "pipeline.report: its page has no place; set pipeline.volume, or pipeline.report.enabled to false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
