{{- /* Metadata of an object: dict "name" NAME "root" $ */ -}}
{{- define "dra.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "dra.clusterMetadata" -}}
name: {{ .name }}
labels:
  {{- include "dra.labels" . | nindent 2 }}
{{- end }}

{{- define "dra.metadata" -}}
namespace: {{ .root.Release.Namespace }}
{{ include "dra.clusterMetadata" . }}
{{- end }}

{{- /* The account of the name, unless another one is given: dict "name" NAME "account" NAME "root" $ */ -}}
{{- define "dra.account" -}}
subjects:
- {kind: ServiceAccount, name: {{ .account | default .name }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}

{{- /* The image of all programs, and the port, by its name, of an address HOST:PORT. */ -}}
{{- define "dra.image" -}}
image: {{ include "dra.imageName" (dict "image" .Values.image "tag" .Chart.AppVersion) }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- /* Repository, tag and digest; without either, the tag that is given: dict "image" IMAGE "tag" TAG */ -}}
{{- define "dra.imageName" -}}
{{- $tag := .image.tag | default (ternary "" .tag (not (empty .image.digest))) -}}
{{ .image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with .image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* The lease of a configuration: dict "name" ITS DEFAULT "config" CONFIG */ -}}
{{- define "dra.lease" -}}
{{ dig "leaderElection" "resourceName" .name .config }}
{{- end }}

{{- define "dra.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}

{{- /* Refuses a port that the same pod has already: dict "field" FIELD "port" PORT "others" PORT BY ITS NAME */ -}}
{{- define "dra.requirePort" -}}
{{- range $other, $port := .others }}
{{- if eq $.port (toString $port) }}
{{- fail (printf "%s: port %s is that of %s" $.field $.port $other) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What all containers have. */ -}}
{{- define "dra.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "dra.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: https-metrics, scheme: HTTPS}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: https-metrics, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: https-metrics, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- /* What all pods have: dict "name" NAME "root" $ "values" VALUES */ -}}
{{- define "dra.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dra.placement" -}}
serviceAccountName: {{ .name }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 0 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- /* Replicas apart, so that a failing node stops only one, unless there is an affinity of one's own. */ -}}
{{- define "dra.affinityApart" -}}
{{- if .values.affinity -}}
{{ toYaml .values.affinity }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector: {matchLabels: {app.kubernetes.io/name: {{ .name }}}}
{{- end }}
{{- end }}

{{- /* A changed configuration changes the pods, so that they are replaced. scraped: the address of the metrics: dict "root" $
"values" VALUES "scraped" ADDRESS */ -}}
{{- define "dra.podAnnotations" -}}
{{- with .values.podAnnotations -}}
{{ toYaml . }}
{{ end -}}
{{- $given := .values.podAnnotations | default dict }}
{{- if and .scraped (hasKey $given "prometheus.io/scrape") (not (hasKey $given "prometheus.io/port")) }}
prometheus.io/port: {{ include "dra.port" .scraped | quote }}
{{ end -}}
checksum/config: {{ tpl (toYaml .values.config) .root | sha256sum }}
{{- end }}

{{- define "dra.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "dra.metadata" . | nindent 2 }}
data:
  {{ .file }}: |
    {{- tpl (toYaml .values.config) .root | nindent 4 }}
{{- end }}

{{- /* Volumes of the Secrets by folder: SECRETS. Only the group can read keys. */ -}}
{{- define "dra.secretVolumes" -}}
{{- range $number, $folder := keys . | sortAlpha }}
- name: secret-{{ $number }}
  secret: {secretName: {{ get $ $folder }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* Where they are mounted: dict "field" FIELD "secrets" SECRETS "taken" FOLDERS OF OTHER VOLUMES */ -}}
{{- define "dra.secretMounts" -}}
{{- range $number, $folder := keys .secrets | sortAlpha }}
{{- if has $folder $.taken }}
{{- fail (printf "%s: something else is mounted at %s: name another folder" $.field $folder) }}
{{- end }}
- {name: secret-{{ $number }}, mountPath: {{ $folder }}, readOnly: true}
{{- end }}
{{- end }}

{{- /* Refuses a configuration that names files which no container would find: dict "field" FIELD "value" CONFIG "secrets"
FIELD OF SECRETS "folders" LIST */ -}}
{{- define "dra.requireFiles" -}}
{{- range $key, $value := .value }}
{{- $field := printf "%s.%v" $.field $key }}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}
{{- include "dra.requireFiles" (dict "field" $field "value" $value "secrets" $.secrets "folders" $.folders) }}
{{- else if and (kindIs "string" $value) (regexMatch "^([a-zA-Z]+File|kubeconfig)$" (toString $key)) }}
{{- if and $value (not (has (dir $value) $.folders)) }}
{{- fail (printf "%s: no Secret is mounted at %s: name one in %s" $field (dir $value) $.secrets) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Keeps all replicas but one from being drained together; one alone has nobody to wait for. */ -}}
{{- define "dra.hasDisruptionBudget" -}}
{{- if and .podDisruptionBudget.enabled (gt (int .replicas) 1) }}true{{ end }}
{{- end }}

{{- define "dra.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "dra.metadata" . | nindent 2 }}
spec:
  minAvailable: {{ .values.podDisruptionBudget.minAvailable }}
  selector: {matchLabels: {app.kubernetes.io/name: {{ .name }}}}
{{- end }}

{{- /* What all accounts of ours have: may ask who reads the metrics, and what their readers need. */ -}}
{{- define "dra.metricsAccess" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "dra.clusterMetadata" (dict "name" (printf "%s-auth-delegator" .name) "root" .root) | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
{{ include "dra.account" . }}
---
# Permission to read the metrics: bind it to the accounts of your monitoring.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "dra.clusterMetadata" (dict "name" (printf "%s-metrics-reader" .name) "root" .root) | nindent 2 }}
rules:
- nonResourceURLs: [/metrics, /debug/queue{{ if .hasPage }}, /ui, /ui/events{{ end }}]
  verbs: [get]
{{- end }}

{{- define "dra.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "dra.metadata" . | nindent 2 }}
{{- end }}

{{- /* Binds the ClusterRole or Role of the name to the account of the name. */ -}}
{{- define "dra.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "dra.clusterMetadata" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .name }}}
{{ include "dra.account" . }}
{{- end }}

{{- define "dra.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "dra.metadata" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .name }}}
{{ include "dra.account" . }}
{{- end }}

{{- /* The container of the extender, without its volumes. */ -}}
{{- define "dra.extenderContainer" -}}
{{ include "dra.image" . }}
args: [extender, serve, --config=/etc/dra-extender/config/config.yaml]
{{- with .Values.extender }}
{{ include "dra.containerSecurity" . }}
resources: {{ toYaml .resources | nindent 2 }}
{{ include "dra.probes" . }}
{{- end }}
{{- end }}

{{- /* The extender's configuration; in kube-scheduler's pod, over plain HTTP on loopback. */ -}}
{{- define "dra.extenderConfig" -}}
{{- with .Values.extender }}
{{- if .sidecar }}
{{- set (omit .config "tls") "address" (printf "127.0.0.1:%s" (include "dra.port" .config.address)) | toYaml }}
{{- else }}
{{- toYaml .config }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Refuses a configuration of kube-scheduler in which it does not allocate itself, as it does with mode advisory. The first
extender is this chart's. */ -}}
{{- define "dra.requireAdvisory" -}}
{{- range $verb := list "bindVerb" "preemptVerb" }}
{{- if get (first ($.extenders | default list) | default dict) $verb }}
{{- fail (printf "extender.kubeScheduler.config.extenders.0.%s: not with mode advisory: take what `dra extender config --mode advisory` writes" $verb) }}
{{- end }}
{{- end }}
{{- range $number, $profile := .profiles }}
{{- $points := (($profile.plugins | default dict).multiPoint | default dict) }}
{{- range ($points.disabled | default list) }}
{{- if has .name (list "DynamicResources" "*") }}
{{- fail (printf "extender.kubeScheduler.config.profiles.%d.plugins.multiPoint.disabled: DynamicResources allocates with mode advisory" $number) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
