{{/* Names, labels and images: what every object of the chart has. Nothing here knows what the agent's settings mean. */}}

{{- define "samerack.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* (name, max): a name of that length at most. What is longer is cut, and a hash of the whole keeps it apart from others
that begin alike. */}}
{{- define "samerack.fit" -}}
{{- if gt (len .name) (int .max) -}}
{{- printf "%s-%s" (trunc (int (sub .max 9)) .name | trimAll "-.:") (sha256sum .name | trunc 8) -}}
{{- else -}}
{{- .name -}}
{{- end -}}
{{- end -}}

{{- define "samerack.fullname" -}}
{{- $name := include "samerack.name" . -}}
{{- $own := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- /* 41: a CronJob's name may have 52, and names of parts (-dashboard, the longest) are put behind ours */ -}}
{{- include "samerack.fit" (dict "name" (default $own .Values.fullnameOverride) "max" 41) -}}
{{- end -}}

{{/* The name of what lies in other namespaces or in none, where releases of several namespaces meet. A colon stands in no
namespace's name, so that no two pairs of namespace and name give the same. */}}
{{- define "samerack.scopedName" -}}
{{- include "samerack.fit" (dict "name" (printf "%s:%s" .Release.Namespace (include "samerack.fullname" .)) "max" 63) -}}
{{- end -}}

{{/* (root, component): the labels that selectors use; they never change between versions. */}}
{{- define "samerack.selector" -}}
app.kubernetes.io/name: {{ include "samerack.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* (root, component): all labels of an object. */}}
{{- define "samerack.labels" -}}
{{- $own := include "samerack.selector" . | fromYaml -}}
{{- $more := dict
  "app.kubernetes.io/version" (.root.Chart.AppVersion | toString)
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/part-of" "samerack"
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- merge (dict) $own $more .root.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* (root, component, name, namespace, labels, annotations): the metadata of an object; all but the first two may be missing.
In another namespace, where releases of several meet, the release's namespace and a dot, which it cannot have, come first. */}}
{{- define "samerack.metadata" -}}
{{- $own := .root.Release.Namespace -}}
{{- $namespace := default $own .namespace -}}
{{- $name := .name | default (include "samerack.fullname" .root) -}}
name: {{ ternary $name (include "samerack.fit" (dict "name" (printf "%s.%s" $own $name) "max" 63)) (eq $namespace $own) }}
namespace: {{ $namespace }}
labels:
  {{- merge (dict) (include "samerack.labels" . | fromYaml) (.labels | default dict) | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* (root, image): the reference of an image. */}}
{{- define "samerack.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* A sidecar runs as its application's account: the chart makes none for it. */}}
{{- define "samerack.createsAccount" -}}
{{- if and .Values.serviceAccount.create (eq .Values.shape "leader") }}yes{{ end -}}
{{- end -}}

{{- define "samerack.serviceAccountName" -}}
{{- $own := ternary (include "samerack.fullname" .) "default" (eq (include "samerack.createsAccount" .) "yes") -}}
{{- default $own .Values.serviceAccount.name -}}
{{- end -}}

{{/* The pipeline's own: what it may do in a cloud is not what the agent may. */}}
{{- define "samerack.pipelineAccountName" -}}
{{- $account := .Values.pipeline.serviceAccount -}}
{{- default (ternary (printf "%s-pipeline" (include "samerack.fullname" .)) "default" $account.create) $account.name -}}
{{- end -}}
