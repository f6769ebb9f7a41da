{{/* What every pod has that runs samerack: environment, volumes, mounts, security. */}}

{{/* Environment of the agent: its file of settings, secrets by reference, and the pod's zone from the downward API. */}}
{{- define "samerack.env" -}}
- name: SAMERACK_CONFIG
  value: {{ include "samerack.configFile" . }}
{{- if .Values.existingConfigMap.name }}
# What the chart knows stands over the file, a variable for each section.
{{- range $section, $settings := include "samerack.config" . | fromYaml }}
{{- if $settings }}
- name: SAMERACK_{{ upper $section }}
  value: {{ toJson $settings | quote }}
{{- end }}
{{- end }}
{{- end }}
# Empty where the pod has no such label: Kubernetes copies it from the node from 1.35 on.
- name: POD_ZONE
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['{{ dig "pod" "label" "topology.kubernetes.io/zone" .Values.config }}']
{{- if include "samerack.asksApi" . }}
{{- if .Values.rbac.nodes }}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
{{- range $key, $secret := .Values.kafka.secrets }}
- name: SAMERACK_KAFKA__{{ $key | upper | replace "." "_" }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name }}
      key: {{ $secret.key }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (root, more): variables from whole ConfigMaps and Secrets; `more` are a list's, and may be missing. */}}
{{- define "samerack.envFrom" -}}
{{- with concat .root.Values.envFrom (.more | default list) }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "samerack.mounts" -}}
- name: samerack-config
  mountPath: {{ include "samerack.configFile" . | dir }}
  readOnly: true
{{- if .Values.kafka.tls.secret }}
- name: samerack-tls
  mountPath: {{ include "samerack.tlsFolder" . }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "samerack.podVolumes" -}}
- name: samerack-config
  configMap:
    name: {{ include "samerack.configMapName" . }}
    {{- if .Values.existingConfigMap.name }}
    items:
      - key: {{ .Values.existingConfigMap.key }}
        path: {{ include "samerack.configFile" . | base }}
    {{- end }}
{{- with .Values.kafka.tls.secret }}
- name: samerack-tls
  secret:
    secretName: {{ . }}
    # only our own containers mount it, and they run as a user of their own
    defaultMode: 0444
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What the agent itself writes: what happened. */}}
{{- define "samerack.stateMount" -}}
- name: samerack-state
  mountPath: {{ include "samerack.stateFolder" . }}
{{- end -}}

{{- define "samerack.stateVolume" -}}
- name: samerack-state
  {{- if and .Values.state.existingClaim (eq .Values.shape "leader") }}
  persistentVolumeClaim:
    claimName: {{ .Values.state.existingClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .Values.state.sizeLimit }}
  {{- end }}
{{- end -}}

{{/* Changes with the settings, so that pods with old ones are replaced: the agent reads them when it starts. */}}
{{- define "samerack.checksum" -}}
checksum/samerack-config: {{ include "samerack.config" . | sha256sum }}
{{- end -}}

{{- define "samerack.scrapeAnnotations" -}}
{{- if .Values.monitoring.annotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ include "samerack.port" . | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end -}}

{{/* Where and how pods of the chart's own run; not for sidecars, whose pod is the application's. */}}
{{- define "samerack.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
