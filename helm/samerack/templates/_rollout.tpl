{{/* How the pods of a leader are replaced. */}}

{{/* Why two of its pods may not be there at a time; empty where they may. */}}
{{- define "samerack.aloneBecause" -}}
{{- if .Values.state.existingClaim -}}
the volume of state.existingClaim is for one pod at a time
{{- else if not (dig "election" "group" "samerack" .Values.config) -}}
without an election (config.election.group) two agents at a time would fence each other
{{- end -}}
{{- end -}}

{{/* With an election the new agent stands by and is ready before the old one ends, which then hands its groups over to it. */}}
{{- define "samerack.updateStrategy" -}}
{{- if .Values.updateStrategy -}}
{{- toYaml .Values.updateStrategy -}}
{{- else if include "samerack.aloneBecause" . -}}
type: Recreate
{{- else -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 1
  maxUnavailable: 0
{{- end -}}
{{- end -}}

{{- define "samerack.validateRollout" -}}
{{- if and .Values.state.existingClaim (ne .Values.shape "leader") -}}
{{- fail "state.existingClaim is for shape: leader; in an application's pods each sidecar has its own volume: remove it" -}}
{{- end -}}
{{- if and .Values.state.existingClaim (gt (int .Values.replicas) 1) -}}
{{- fail "replicas is 2 and state.existingClaim is set: the second agent could not start while the first one has the volume; set replicas to 1, or remove state.existingClaim: then each pod has its own volume" -}}
{{- end -}}
{{- $because := include "samerack.aloneBecause" . -}}
{{- if and $because .Values.updateStrategy (ne (get .Values.updateStrategy "type" | default "RollingUpdate") "Recreate") -}}
{{- if not (has (dig "rollingUpdate" "maxSurge" "25%" .Values.updateStrategy | toString) (list "0" "0%")) -}}
{{- fail (printf "updateStrategy starts the new pod before the old one ends, and %s; remove it (Recreate), or set updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}" $because) -}}
{{- end -}}
{{- end -}}
{{- end -}}
