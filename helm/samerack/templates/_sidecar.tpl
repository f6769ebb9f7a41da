{{/* For other charts: what makes a pod of consumers know its rack and run the agent beside them. All of them take the
context of this chart, which a chart that has it as a dependency finds in .Subcharts.samerack. What a pod says as a whole is
the application's: no template sets it. */}}

{{- define "samerack.rackFolder" -}}/run/samerack{{- end -}}

{{/* An init container that writes the pod's rack where the application reads it. */}}
{{- define "samerack.initRack" -}}
- name: samerack-rack
  image: {{ include "samerack.image" (dict "root" . "image" .Values.image) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - rack
    - --write={{ include "samerack.rackFolder" . }}/rack
    - --env-file={{ include "samerack.rackFolder" . }}/env
    - --properties-file={{ include "samerack.rackFolder" . }}/client.properties
    {{- if not .Values.sidecar.rackRequired }}
    - --or-empty
    {{- end }}
  env:
    {{- include "samerack.env" . | nindent 4 }}
  {{- include "samerack.envFrom" (dict "root" .) | nindent 2 }}
  volumeMounts:
    {{- include "samerack.mounts" . | nindent 4 }}
    - name: samerack-rack
      mountPath: {{ include "samerack.rackFolder" . }}
  resources:
    {{- toYaml .Values.sidecar.initResources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
{{- end -}}

{{/* The agent as a native sidecar: an init container that goes on running. A container that ends or fails a probe makes the
whole pod not ready: so the agent goes on trying if it cannot start, and has no probe: it replaces its worker itself. */}}
{{- define "samerack.sidecar" -}}
{{- include "samerack.validate" . -}}
- name: samerack
  image: {{ include "samerack.image" (dict "root" . "image" .Values.image) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args: [run, --keep-trying]
  env:
    # over the file, which may change while this pod and its port stay as they are
    {{- $web := (include "samerack.config" . | fromYaml).web }}
    - name: SAMERACK_WEB__HOST
      value: {{ $web.host | quote }}
    - name: SAMERACK_WEB__PORT
      value: {{ $web.port | int | quote }}
    {{- include "samerack.env" . | nindent 4 }}
  {{- include "samerack.envFrom" (dict "root" .) | nindent 2 }}
  ports:
    - name: samerack
      containerPort: {{ include "samerack.port" . }}
  volumeMounts:
    {{- include "samerack.mounts" . | nindent 4 }}
    {{- include "samerack.stateMount" . | nindent 4 }}
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
{{- end -}}

{{/* Both, in their order. */}}
{{- define "samerack.initContainers" -}}
{{ include "samerack.initRack" . }}
{{ include "samerack.sidecar" . }}
{{- end -}}

{{/* The volumes of both. */}}
{{- define "samerack.volumes" -}}
{{ include "samerack.podVolumes" . }}
{{ include "samerack.stateVolume" . }}
- name: samerack-rack
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- end -}}

{{/* The application's mount, with `rack`, `env` and `client.properties` in it. */}}
{{- define "samerack.rackMount" -}}
- name: samerack-rack
  mountPath: {{ include "samerack.rackFolder" . }}
  readOnly: true
{{- end -}}

{{/* Annotations for the pod: a roll-out when settings change, and where Prometheus finds the sidecar. */}}
{{- define "samerack.podAnnotations" -}}
{{ include "samerack.checksum" . }}
{{- include "samerack.scrapeAnnotations" . }}
{{- end -}}
