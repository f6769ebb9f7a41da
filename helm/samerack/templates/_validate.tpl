{{/* What the schema of the values cannot say: rules between values, each with its cure. Rules on roll-outs, on the network
and on monitoring stand with what they are about. */}}

{{- define "samerack.validate" -}}
{{- include "samerack.validateImages" . -}}
{{- include "samerack.validateSecrets" . -}}
{{- include "samerack.validateSettings" . -}}
{{- include "samerack.validateOrder" . -}}
{{- include "samerack.validateRollout" . -}}
{{- include "samerack.validateNetwork" . -}}
{{- include "samerack.validateMonitoring" . -}}
{{- include "samerack.validatePipeline" . -}}
{{- end -}}

{{- define "samerack.validateImages" -}}
{{- $needsAgent := or (eq .Values.shape "leader") (not .Values.pipeline.enabled) -}}
{{- if and $needsAgent (not .Values.image.repository) -}}
{{- fail "image.repository is empty; build the image (docker build), push it to your registry and name it here" -}}
{{- end -}}
{{- range $place, $repository := dict "image" .Values.image.repository "pipeline.image" .Values.pipeline.image.repository -}}
{{- if contains "@" $repository -}}
{{- fail (printf "%s.repository has a digest in it; set them separately: repository: %s, digest: %s" $place (regexReplaceAll "(:[^:/@]*)?@.*$" $repository "") (regexReplaceAll "^[^@]*@" $repository "")) -}}
{{- end -}}
{{- $tag := regexFind ":[^:/]*$" $repository -}}
{{- if $tag -}}
{{- fail (printf "%s.repository ends with a tag; set them separately: repository: %s, tag: %q" $place (trimSuffix $tag $repository) (trimPrefix ":" $tag)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes the name of a setting or a variable: "yes" where its value is a secret. The words are those by which the pipeline
hides values in Spark; an address, a file, a class or an id is no secret. */}}
{{- define "samerack.isSecret" -}}
{{- $words := "secret|passw|passphrase|token|credential|(access|account|private|keystore)[._-]?key|jaas|[._]sas[._]" -}}
{{- $found := regexMatch (printf "(?i)(%s|[._]pem$|otlp_(metrics_)?headers$)" $words) . -}}
{{- if and $found (not (regexMatch "(?i)([._](url|uri|location|path|id|type|enabled|application_credentials)|file|provider)$" .)) }}yes{{ end -}}
{{- end -}}

{{/* Passwords belong in Secrets: a ConfigMap and the text of a pod are for everybody to read who may look around. */}}
{{- define "samerack.validateSecrets" -}}
{{- $url := "://[^/\\s\"'@]+:[^/\\s\"'@]+@" -}}
{{- range $place, $part := merge (dict "config.pipeline.conf" (dig "pipeline" "conf" (dict) .Values.config)) (include "samerack.kafkaSettings" . | fromJson) -}}
{{- range $key, $_ := $part -}}
{{- if include "samerack.isSecret" $key -}}
{{- fail (printf "%s.%s would be in a ConfigMap for everyone to read; put it into a Secret and name that in %s" $place $key (ternary (printf "kafka.secrets: {%s: {name: SECRET, key: KEY}}" $key) "extraEnv" (eq $place "config.kafka"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if regexMatch $url (toYaml .Values.config) -}}
{{- fail "config has a URL with a password in it, which would be in a ConfigMap for everyone to read; leave it out of the URL (headers for otel.endpoint: OTEL_EXPORTER_OTLP_HEADERS in extraEnv, by valueFrom)" -}}
{{- end -}}
{{- range $place, $variables := dict "extraEnv" .Values.extraEnv "pipeline.extraEnv" .Values.pipeline.extraEnv -}}
{{- range $variables -}}
{{- $value := get . "value" | toString -}}
{{- $secret := or (include "samerack.isSecret" (get . "name" | toString)) (regexMatch $url $value) -}}
{{- range regexFindAll "(^|[^\\w./-])[\\w.-]+[\"']?\\s*[:=]" $value -1 -}}
{{- $secret = or $secret (include "samerack.isSecret" (regexFind "[\\w.-]+" .)) -}}
{{- end -}}
{{- if and $value $secret (not (contains "$(" $value)) -}}
{{- fail (printf "%s: the value of %s would be in the pod for everyone to read; put it into a Secret, and write valueFrom: {secretKeyRef: {name: SECRET, key: KEY}} instead of value" $place .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "samerack.validateSettings" -}}
{{- $elsewhere := include "samerack.hasOtherSources" . -}}
{{- $servers := include "samerack.fromVariable" (dict "root" . "key" "bootstrap.servers") -}}
{{- if not (or (dig "kafka" "bootstrap.servers" "" .Values.config) .Values.config.clusters $servers $elsewhere) -}}
{{- fail "config.kafka: bootstrap.servers is missing; give config: {kafka: {bootstrap.servers: HOST:PORT}}" -}}
{{- end -}}
{{- $several := include "samerack.observesSeveral" . -}}
{{- if and $several .Values.config.groups (not $elsewhere) -}}
{{- fail "config.groups: an agent of several clusters (config.clusters) leads no groups; name one of them in config.cluster, or install one release per cluster to lead" -}}
{{- end -}}
{{- if and $several (ne .Values.shape "leader") (not $elsewhere) -}}
{{- fail "config.clusters: a sidecar is beside consumers of one cluster; name that in config.cluster, or observe several with shape: leader" -}}
{{- end -}}
{{- if and (eq .Values.shape "leader") (not (or .Values.config.groups .Values.config.clusters (dig "traffic" "groups" (list) .Values.config) $elsewhere)) -}}
{{- fail "config.groups is empty; name the consumer groups to lead, config: {groups: [orders]}, or those to observe in config.traffic.groups" -}}
{{- end -}}
{{- if and (ne .Values.shape "leader") (gt (int .Values.replicas) 1) -}}
{{- fail "replicas is for shape: leader; a sidecar runs once in every pod of its application" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (hasKey .Values.config "election") (not (dig "election" "group" "samerack" .Values.config)) -}}
{{- fail "replicas is 2 and config.election.group is empty: two agents would fence each other; set a group for their election, or set replicas to 1" -}}
{{- end -}}
{{- if and (dig "election" "identity" "" .Values.config) (or (gt (int .Values.replicas) 1) (ne .Values.shape "leader")) -}}
{{- fail "config.election.identity would be the same in all pods, so that only the last one stays in the election; remove it, or give each pod its own: extraEnv: [{name: SAMERACK_ELECTION__IDENTITY, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]" -}}
{{- end -}}
{{- if eq (dig "web" "port" 9464 .Values.config | int) 0 -}}
{{- fail "config.web.port is 0, which picks any free port; probes and Prometheus need a fixed one" -}}
{{- end -}}
{{- if and (eq .Values.shape "leader") (not (include "samerack.reachable" .)) -}}
{{- fail "config.web.host is loopback: the kubelet's probes could not reach the agent; remove it (0.0.0.0), or use :: for IPv6" -}}
{{- end -}}
{{- if and .Values.kafka.tls.certificate (not .Values.kafka.tls.key) -}}
{{- fail "kafka.tls.certificate is set but kafka.tls.key is not; a client certificate needs its key" -}}
{{- end -}}
{{- $protocol := or (dig "kafka" "security.protocol" "" (include "samerack.config" . | fromYaml)) (include "samerack.fromVariable" (dict "root" . "key" "security.protocol")) .Values.envFrom -}}
{{- if and .Values.kafka.tls.secret (not $protocol) -}}
{{- fail "kafka.tls is set, but the chart does not see security.protocol in existingConfigMap, and without it the agent would not use TLS; set it here too: config: {kafka: {security.protocol: SSL}}, or SASL_SSL for a SASL mechanism" -}}
{{- end -}}
{{- if and (ne .Values.shape "leader") (include "samerack.asksApi" .) .Values.rbac.create (not .Values.serviceAccount.name) -}}
{{- fail "config.pod uses the Kubernetes API, but serviceAccount.name is empty; name the service account of your application's pods" -}}
{{- end -}}
{{- end -}}

{{/* Helm does not keep the order of a map. Of two keys that match the same name the first would win. */}}
{{- define "samerack.validateOrder" -}}
{{- range $place := list "policy.groups" "leading.groups" "lag.groups" "streams.applications" "pipeline.owners" "racks.client_ids" -}}
{{- $keys := splitList "." $place -}}
{{- $map := dig (first $keys) (last $keys) (dict) $.Values.config -}}
{{- $cure := printf "give the map in extraEnv, which keeps its order: {name: SAMERACK_%s, value: '{KEY: VALUE}'}" ($place | upper | replace "." "__") -}}
{{- $regexes := dict -}}
{{- range $pattern, $_ := $map -}}
{{- $text := $pattern | splitList "[" | first | regexQuoteMeta | replace "\\*" ".*" | replace "\\?" "." -}}
{{- /* what brackets match is not looked into */ -}}
{{- $_ := set $regexes $pattern (printf "(?s)^%s%s$" $text (ternary ".*" "" (contains "[" $pattern))) -}}
{{- end -}}
{{- range $pattern, $value := $map -}}
{{- range $key, $other := $map -}}
{{- if deepEqual $value $other -}}
{{- else if and (regexMatch "[*?[]" $pattern) (regexMatch (get $regexes $pattern) $key) -}}
{{- $both := dict $pattern 0 $key 0 -}}
{{- /* YAML in the ConfigMap and JSON in variables sort differently */ -}}
{{- if or (hasPrefix (toYaml (dict $pattern 0)) (toYaml $both)) (hasPrefix (toJson (dict $pattern 0) | trimSuffix "}") (toJson $both)) -}}
{{- fail (printf "config.%s: %q would come before %q, which it matches, because Helm sorts keys and the first match wins; %s" $place $pattern $key $cure) -}}
{{- end -}}
{{- else if and (contains "*" $pattern) (contains "*" $key) (not (regexMatch (get $regexes $key) $pattern)) -}}
{{- /* a name may begin and end as both say, with what both want in between */ -}}
{{- $begin := list (regexFind "^[^*?[]*" $pattern) (regexFind "^[^*?[]*" $key) -}}
{{- $end := list (regexFind "[^]*?[]*$" $pattern) (regexFind "[^]*?[]*$" $key) -}}
{{- $begins := or (hasPrefix (first $begin) (last $begin)) (hasPrefix (last $begin) (first $begin)) -}}
{{- if and $begins (or (hasSuffix (first $end) (last $end)) (hasSuffix (last $end) (first $end))) -}}
{{- fail (printf "config.%s: %q and %q match the same names, and Helm sorts keys, so that it is lost which comes first and wins; %s" $place $pattern $key $cure) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "samerack.validatePipeline" -}}
{{- $pipeline := .Values.pipeline -}}
{{- if $pipeline.enabled -}}
{{- if not (or $pipeline.image.repository .Values.image.repository) -}}
{{- fail "pipeline.image.repository is empty; name the pipeline's image there, or the agent's in image.repository" -}}
{{- end -}}
{{- if not (or (include "samerack.volumeFolder" .) (dig "pipeline" "tables" "" .Values.config) (include "samerack.hasOtherSources" .)) -}}
{{- fail "pipeline: there is nowhere to store the tables; set config.pipeline.tables to an address in an object store, or pipeline.volume" -}}
{{- end -}}
{{- range $key := list "tables" "master" -}}
{{- if and $.Values.existingConfigMap.name (not (dig "pipeline" $key "" $.Values.config)) -}}
{{- fail (printf "pipeline: the chart does not see pipeline.%s in existingConfigMap, and would put its own default over it; set it here too: config.pipeline.%s" $key $key) -}}
{{- end -}}
{{- end -}}
{{- $cure := "give the pipeline a release of its own (shape: sidecar), whose config.kafka and config.pipeline name what it reads" -}}
{{- $kafka := dig "kafka" (dict) .Values.config -}}
{{- $servers := dig "publishing" "kafka" "bootstrap.servers" "" .Values.config -}}
{{- if and $servers (not (deepEqual $servers (get $kafka "bootstrap.servers"))) -}}
{{- fail (printf "pipeline: agents publish to the brokers of config.publishing.kafka, and the pipeline reads those of config.kafka; %s" $cure) -}}
{{- end -}}
{{- range $key, $default := dict "traffic_topic" "samerack-traffic" "states_topic" "samerack-states" -}}
{{- $written := dig "publishing" $key "" $.Values.config -}}
{{- $read := dig "pipeline" $key $default $.Values.config -}}
{{- if and $written (ne $written $read) -}}
{{- fail (printf "pipeline: config.publishing.%s is %s, and the pipeline reads %s; %s" $key $written $read $cure) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := merge (dict) $kafka .Values.kafka.secrets -}}
{{- if and (hasPrefix "sasl.mechanism" $key) (eq (toString $value | upper) "AWS_MSK_IAM") -}}
{{- fail (printf "pipeline: config.kafka.%s is %s, which Spark's Kafka client does not have; %s, with SCRAM or TLS" $key $value $cure) -}}
{{- end -}}
{{- if hasPrefix "sasl.oauthbearer." $key -}}
{{- fail (printf "pipeline: Spark's Kafka client has no %s; %s, with SCRAM or TLS" $key $cure) -}}
{{- end -}}
{{- end -}}
{{- if and $pipeline.report.enabled (not (include "samerack.volumeFolder" .)) -}}
{{- fail "pipeline.report: there is nowhere to store its page; set pipeline.volume, or pipeline.report.enabled to false" -}}
{{- end -}}
{{- $heap := dig "pipeline" "conf" "spark.driver.memory" "" .Values.config | toString | regexFind "^[0-9]+g$" | trimSuffix "g" | int -}}
{{- range $name := list "stream" "report" -}}
{{- $limit := dig $name "resources" "limits" "memory" "" $pipeline | toString | regexFind "^[0-9]+Gi$" | trimSuffix "Gi" | int -}}
{{- if and (dig $name "enabled" false $pipeline) $heap $limit (le $limit $heap) -}}
{{- fail (printf "pipeline.%s.resources.limits.memory (%dGi) has no room beside Java's heap (spark.driver.memory: %dg); make it %dGi or more" $name $limit $heap (add $heap 1)) -}}
{{- end -}}
{{- end -}}
{{- if and $pipeline.serviceAccount.create (include "samerack.createsAccount" .) (eq (include "samerack.pipelineAccountName" .) (include "samerack.serviceAccountName" .)) -}}
{{- fail "serviceAccount and pipeline.serviceAccount have the same name; set pipeline.serviceAccount.create to false to share one account, or give them two names" -}}
{{- end -}}
{{- end -}}
{{- end -}}
