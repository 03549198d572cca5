{{- define "himalia.replicated" -}}
{{- if eq .Values.store "postgres-s3" }}yes{{ end }}
{{- end }}

{{/* himalia.toml */}}
{{- define "himalia.toml" -}}
listen = "0.0.0.0:8888"
token_file = "/run/secrets/himalia/token"
data_dir = "/data/himalia"
run_dir = "/tmp/himalia"
on_sigterm = "keep"
log_format = "json"
{{- if include "himalia.replicated" . }}
replica_listen = "0.0.0.0:8889"
replica_key = "/run/secrets/himalia-keys/replicas.pem"
credentials_key_file = "/run/secrets/himalia-keys/credentials.key"
{{- end }}
{{- with .Values.settings }}
{{ . }}
{{- end }}

[kubernetes]
namespace = {{ .Values.kernels.namespace | quote }}
image = {{ .Values.images.kernel | quote }}
agent_image = {{ .Values.images.agent | quote }}
{{- if include "himalia.replicated" . }}
authority_keys = ["/run/secrets/himalia-keys/authority.pem"]
{{- end }}
{{- with .Values.images.pullSecrets }}
pull_secrets = {{ toJson . }}
{{- end }}

[defaults]
memory = {{ .Values.kernels.memory | quote }}
cpu = {{ .Values.kernels.cpu }}
{{- with .Values.tables }}

{{ . }}
{{- end }}
{{- end }}
