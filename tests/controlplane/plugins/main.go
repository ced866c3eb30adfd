// Command plugins asks kube-scheduler's own plugins about one pod and a few nodes.
//
// Each line of standard input is a request: {"pod": Pod, "nodes": [Node], "pods": [Pod], "namespaces": [Namespace]},
// where the pods are those on the nodes, by spec.nodeName. Each line of standard output answers one: which plugin refuses which node and why,
// and what the scorers give to the nodes that are left. No API server is asked, and no framework runs: the plugins
// that look at a pod, a node and its other pods alone are called in kube-scheduler's order.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

const longestLine = 1 << 24

// The defaults of 1.36, as far as these plugins ask.
var features = feature.Features{
	EnableInPlacePodLevelResourcesVerticalScaling: true,
	EnableInPlacePodVerticalScaling:               true,
	EnablePodLevelResources:                       true,
	EnableSchedulingQueueHint:                     true,
	EnableSidecarContainers:                       true,
}

var leastAllocated = &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{
	Type:      config.LeastAllocated,
	Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
}}

type request struct {
	Pod   *v1.Pod    `json:"pod"`
	Nodes []*v1.Node `json:"nodes"`
	Pods  []*v1.Pod  `json:"pods"`

	Namespaces []*v1.Namespace `json:"namespaces"`
}

// refusal is what one plugin says of one node; resolvable: the end of other pods could change it.
type refusal struct {
	Plugin     string   `json:"plugin"`
	Reasons    []string `json:"reasons"`
	Resolvable bool     `json:"resolvable"`
}

// answer holds refusals by node, and normalized scores by plugin and node.
type answer struct {
	Refused map[string]refusal          `json:"refused"`
	Scores  map[string]map[string]int64 `json:"scores"`
}

// attempt is one pod on its way through the plugins.
type attempt struct {
	state   fwk.CycleState
	pod     *v1.Pod
	nodes   []fwk.NodeInfo
	skipped map[string]bool
	answer  answer
}

func main() {
	ctx := context.Background()
	metrics.Register() // some plugins count how busy they are
	plugins := build(ctx)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			log.Fatalf("cannot read the request %q: %v", lines.Text(), err)
		}
		if err := answers.Encode(decide(ctx, plugins, asked)); err != nil {
			log.Fatalf("cannot write the answer: %v", err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatalf("cannot read requests: %v", err)
	}
}

func build(ctx context.Context) []fwk.Plugin {
	return []fwk.Plugin{
		must(nodeunschedulable.New(ctx, nil, nil, features)),
		must(nodename.New(ctx, nil, nil, features)),
		must(tainttoleration.New(ctx, nil, nil, features)),
		must(nodeaffinity.New(ctx, &config.NodeAffinityArgs{}, nil, features)),
		must(nodeports.New(ctx, nil, nil, features)),
		must(noderesources.NewFit(ctx, leastAllocated, nil, features)),
	}
}

// interPodAffinity looks at all nodes at once, and so is made anew for each request.
func interPodAffinity(ctx context.Context, asked request) fwk.Plugin {
	informers := informers.NewSharedInformerFactory(nil, 0)
	for _, namespace := range asked.Namespaces {
		if err := informers.Core().V1().Namespaces().Informer().GetStore().Add(namespace); err != nil {
			log.Fatalf("cannot add namespace %s: %v", namespace.Name, err)
		}
	}
	snapshot := cache.NewSnapshot(asked.Pods, asked.Nodes)
	handle, err := runtime.NewFramework(ctx, nil, nil,
		runtime.WithSnapshotSharedLister(snapshot), runtime.WithInformerFactory(informers))
	if err != nil {
		log.Fatalf("cannot make a handle: %v", err)
	}
	return must(interpodaffinity.New(ctx, &config.InterPodAffinityArgs{}, handle, features))
}

func must(plugin fwk.Plugin, err error) fwk.Plugin {
	if err != nil {
		log.Fatalf("cannot make a plugin: %v", err)
	}
	return plugin
}

func decide(ctx context.Context, plugins []fwk.Plugin, asked request) answer {
	one := &attempt{
		state:   framework.NewCycleState(),
		pod:     asked.Pod,
		nodes:   infos(asked),
		skipped: map[string]bool{},
		answer:  answer{map[string]refusal{}, map[string]map[string]int64{}},
	}
	plugins = append(slices.Clone(plugins), interPodAffinity(ctx, asked))
	for _, plugin := range plugins {
		one.preFilter(ctx, plugin)
	}
	for _, plugin := range plugins {
		one.filter(ctx, plugin)
	}
	for _, plugin := range plugins {
		one.score(ctx, plugin)
	}
	return one.answer
}

func infos(asked request) []fwk.NodeInfo {
	found := make([]fwk.NodeInfo, 0, len(asked.Nodes))
	for _, node := range asked.Nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		for _, pod := range asked.Pods {
			if pod.Spec.NodeName == node.Name {
				info.AddPod(pod)
			}
		}
		found = append(found, info)
	}
	return found
}

// left are the nodes that no plugin has refused so far.
func (a *attempt) left() []fwk.NodeInfo {
	var left []fwk.NodeInfo
	for _, info := range a.nodes {
		if _, refused := a.answer.Refused[info.Node().Name]; !refused {
			left = append(left, info)
		}
	}
	return left
}

func (a *attempt) refuse(info fwk.NodeInfo, plugin fwk.Plugin, status *fwk.Status) {
	resolvable := status.Code() == fwk.Unschedulable
	a.answer.Refused[info.Node().Name] = refusal{plugin.Name(), status.Reasons(), resolvable}
}

func (a *attempt) preFilter(ctx context.Context, plugin fwk.Plugin) {
	before, is := plugin.(fwk.PreFilterPlugin)
	if !is {
		return
	}
	narrowed, status := before.PreFilter(ctx, a.state, a.pod, a.nodes)
	a.skipped[plugin.Name()] = status.IsSkip()
	for _, info := range a.left() {
		if !status.IsSkip() && !status.IsSuccess() {
			a.refuse(info, plugin, status)
		} else if narrowed != nil && !narrowed.AllNodes() && !narrowed.NodeNames.Has(info.Node().Name) {
			reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) [%s]", plugin.Name())
			a.refuse(info, plugin, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason))
		}
	}
}

func (a *attempt) filter(ctx context.Context, plugin fwk.Plugin) {
	filter, is := plugin.(fwk.FilterPlugin)
	if !is || a.skipped[plugin.Name()] {
		return
	}
	for _, info := range a.left() {
		if status := filter.Filter(ctx, a.state, a.pod, info); !status.IsSuccess() {
			a.refuse(info, plugin, status)
		}
	}
}

func (a *attempt) score(ctx context.Context, plugin fwk.Plugin) {
	scorer, is := plugin.(fwk.ScorePlugin)
	if !is {
		return
	}
	if before, is := plugin.(fwk.PreScorePlugin); is {
		if status := before.PreScore(ctx, a.state, a.pod, a.left()); status.IsSkip() {
			return
		}
	}
	var scores fwk.NodeScoreList
	for _, info := range a.left() {
		score, status := scorer.Score(ctx, a.state, a.pod, info)
		if !status.IsSuccess() {
			log.Fatalf("%s cannot score: %s", plugin.Name(), status.Message())
		}
		scores = append(scores, fwk.NodeScore{Name: info.Node().Name, Score: score})
	}
	if extensions := scorer.ScoreExtensions(); extensions != nil {
		extensions.NormalizeScore(ctx, a.state, a.pod, scores)
	}
	a.answer.Scores[plugin.Name()] = byNode(scores)
}

func byNode(scores fwk.NodeScoreList) map[string]int64 {
	found := map[string]int64{}
	for _, score := range scores {
		found[score.Name] = score.Score
	}
	return found
}
