{{/* (monitor): how a PodMonitor or a ServiceMonitor scrapes. The alert rules go by the name of the job, whatever the
release is called. */}}
{{- define "samerack.scrapeEndpoint" -}}
- port: samerack
  path: /metrics
  interval: {{ .interval }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  relabelings:
    - targetLabel: job
      replacement: samerack
    {{- with .relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "samerack.validateMonitoring" -}}
{{- $monitoring := .Values.monitoring -}}
{{- if eq .Values.shape "sidecar" -}}
{{- if and (or $monitoring.podMonitor.enabled $monitoring.annotations) (not (include "samerack.reachable" .)) -}}
{{- fail "monitoring cannot scrape sidecars, because their port is on loopback; set config: {web: {host: 0.0.0.0}}" -}}
{{- end -}}
{{- if and $monitoring.podMonitor.enabled (not $monitoring.podMonitor.selector) -}}
{{- fail "monitoring.podMonitor.selector is empty; give the labels of your application's pods" -}}
{{- end -}}
{{- if $monitoring.serviceMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor is for shape: leader, because the chart gives sidecars no Service; set monitoring.podMonitor instead" -}}
{{- end -}}
{{- end -}}
{{- if and $monitoring.serviceMonitor.enabled (not .Values.service.enabled) -}}
{{- fail "monitoring.serviceMonitor scrapes through the Service, but service.enabled is false; set it to true, or use monitoring.podMonitor" -}}
{{- end -}}
{{- if and $monitoring.serviceMonitor.enabled $monitoring.podMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor and monitoring.podMonitor are both enabled: every agent would be scraped and counted twice; keep one" -}}
{{- end -}}
{{- end -}}
