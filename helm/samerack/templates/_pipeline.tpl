{{/* The pod of a pipeline job: Spark inside one container, on the pipeline's own image. */}}

{{/* (root, component, args, resources, restartPolicy) */}}
{{- define "samerack.pipelinePod" -}}
{{- $pipeline := .root.Values.pipeline -}}
metadata:
  labels:
    {{- merge (dict) (include "samerack.labels" . | fromYaml) .root.Values.podLabels | toYaml | nindent 4 }}
  annotations:
    {{- include "samerack.checksum" .root | nindent 4 }}
    {{- with merge (dict) .root.Values.podAnnotations .root.Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  restartPolicy: {{ .restartPolicy }}
  # a batch is completed, and with it the maintenance that may follow
  terminationGracePeriodSeconds: 600
  serviceAccountName: {{ include "samerack.pipelineAccountName" .root }}
  automountServiceAccountToken: {{ $pipeline.automountServiceAccountToken }}
  enableServiceLinks: false
  securityContext:
    {{- toYaml $pipeline.podSecurityContext | nindent 4 }}
  {{- include "samerack.scheduling" .root | nindent 2 }}
  containers:
    - name: pipeline
      {{- $repository := default (printf "%s-pipeline" .root.Values.image.repository) $pipeline.image.repository }}
      image: {{ include "samerack.image" (dict "root" .root "image" (merge (dict "repository" $repository) $pipeline.image)) }}
      imagePullPolicy: {{ $pipeline.image.pullPolicy }}
      command: [samerack, pipeline]
      args: {{ toJson .args }}
      env:
        {{- include "samerack.env" .root | nindent 8 }}
        # what Spark writes beside its tables goes to the pod's own volume
        - name: HOME
          value: /tmp
        - name: SPARK_LOCAL_DIRS
          value: /tmp
        {{- with $pipeline.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- include "samerack.envFrom" (dict "root" .root "more" $pipeline.envFrom) | nindent 6 }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        {{- toYaml .root.Values.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "samerack.mounts" .root | nindent 8 }}
        - name: tmp
          mountPath: /tmp
        {{- with include "samerack.volumeFolder" .root }}
        - name: tables
          mountPath: {{ . }}
        {{- end }}
  volumes:
    {{- include "samerack.podVolumes" .root | nindent 4 }}
    - name: tmp
      emptyDir: {}
    {{- if include "samerack.volumeFolder" .root }}
    - name: tables
      persistentVolumeClaim:
        claimName: {{ $pipeline.volume.existingClaim | default (printf "%s-tables" (include "samerack.fullname" .root)) }}
    {{- end }}
{{- end -}}
