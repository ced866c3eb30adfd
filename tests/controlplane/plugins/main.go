// Command plugins asks kube-scheduler's own plugins, in their default profile, about one pod and a cluster.
//
// Each line of standard input is a case: {"pod": Pod, "nodes": [Node], "pods": [Pod], ...}, with lists of complete API
// objects by the names in kinds. Each line of standard output answers one, in the same order: where the queue puts the
// pod, what PreFilter says, what becomes of each node, and by plugin the weighted scores of those that are feasible.
// A whole scheduler is made for each case over a fake clientset, and its phases are called one by one.
//
// `plugins cycle`, `plugins gang` and `plugins preempt` measure decisions instead, and `plugins judge` looks at somebody
// else's; see cycle.go, gang.go, preempt.go and judge.go.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

const (
	longestLine = 1 << 24
	atOnce      = 16 // most of a case is waiting for informers to poll
)

// kinds are the fields of a case that hold objects, and what reads them.
var kinds = map[string]func([]byte) ([]runtime.Object, error){
	"nodes":                  list[v1.Node],
	"pods":                   list[v1.Pod],
	"namespaces":             list[v1.Namespace],
	"services":               list[v1.Service],
	"replicationControllers": list[v1.ReplicationController],
	"replicaSets":            list[appsv1.ReplicaSet],
	"statefulSets":           list[appsv1.StatefulSet],
	"persistentVolumes":      list[v1.PersistentVolume],
	"persistentVolumeClaims": list[v1.PersistentVolumeClaim],
	"storageClasses":         list[storagev1.StorageClass],
	"csiNodes":               list[storagev1.CSINode],
	"csiDrivers":             list[storagev1.CSIDriver],
	"csiStorageCapacities":   list[storagev1.CSIStorageCapacity],
	"volumeAttachments":      list[storagev1.VolumeAttachment],
	"resourceClaims":         list[resourcev1.ResourceClaim],
	"resourceSlices":         list[resourcev1.ResourceSlice],
	"deviceClasses":          list[resourcev1.DeviceClass],
	"podDisruptionBudgets":   list[policyv1.PodDisruptionBudget],
}

// status is what the plugins say of a node, or of all.
type status struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
}

type score struct {
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"` // weighted
}

// answer is what becomes of the pod. Fault: why there is none.
type answer struct {
	Fault     string            `json:"fault,omitempty"`
	Queue     string            `json:"queue,omitempty"` // active or unschedulable
	Gate      string            `json:"gate,omitempty"`  // the plugin that holds the pod in the queue
	PreFilter status            `json:"preFilter"`
	Nodes     map[string]status `json:"nodes,omitempty"`
	Scores    map[string]score  `json:"scores,omitempty"`
}

// attempt is one pod on its way through the plugins.
type attempt struct {
	pod       *v1.Pod
	scheduler *scheduler.Scheduler
	profile   framework.Framework
	snapshot  *cache.Snapshot
	state     fwk.CycleState
	feasible  []fwk.NodeInfo
	answer    answer
}

func main() {
	switch {
	case len(os.Args) == 1:
		answerCases()
	case os.Args[1] == "cycle":
		measureCycles(os.Args[2:])
	case os.Args[1] == "judge":
		judgeChoices(os.Args[2:])
	case os.Args[1] == "preempt":
		measurePreemptions()
	case os.Args[1] == "gang":
		measureGang()
	default:
		log.Fatalf("%s: no such command; there are cycle, gang, judge and preempt", os.Args[1])
	}
}

func answerCases() {
	cases := bufio.NewScanner(os.Stdin)
	cases.Buffer(nil, longestLine)
	pending, done := make(chan chan answer, atOnce), make(chan struct{})
	go write(pending, done)
	for cases.Scan() {
		one, line := make(chan answer, 1), bytes.Clone(cases.Bytes())
		pending <- one
		go func() { one <- answerTo(line) }()
	}
	close(pending)
	<-done
	if err := cases.Err(); err != nil {
		log.Fatalf("cannot read cases: %v", err)
	}
}

func write(pending chan chan answer, done chan struct{}) {
	defer close(done)
	answers := json.NewEncoder(os.Stdout)
	for one := range pending {
		if err := answers.Encode(<-one); err != nil {
			log.Fatalf("cannot write the answer: %v", err)
		}
	}
}

func answerTo(line []byte) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pod, objects, err := decode(line)
	if err != nil {
		return answer{Fault: err.Error()}
	}
	one, err := begin(ctx, pod, objects)
	if err == nil {
		one.queue(ctx)
		err = one.decide(ctx)
	}
	if err != nil {
		return answer{Fault: err.Error()}
	}
	return one.answer
}

func decode(line []byte) (*v1.Pod, []runtime.Object, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, nil, fmt.Errorf("cannot read the case: %w", err)
	}
	pod := &v1.Pod{}
	if err := strictly(fields["pod"], pod); err != nil {
		return nil, nil, fmt.Errorf("pod: %w", err)
	}
	delete(fields, "pod")
	objects, err := objectsOf(fields)
	return pod, append([]runtime.Object{pod}, objects...), err
}

func objectsOf(fields map[string]json.RawMessage) ([]runtime.Object, error) {
	var objects []runtime.Object
	for name, raw := range fields {
		read, known := kinds[name]
		if !known {
			return nil, fmt.Errorf("%s: no such field", name)
		}
		found, err := read(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func list[T any, P interface {
	*T
	runtime.Object
}](raw []byte) ([]runtime.Object, error) {
	var items []T
	err := strictly(raw, &items)
	objects := make([]runtime.Object, len(items))
	for i := range items {
		objects[i] = P(&items[i])
	}
	return objects, err
}

func strictly(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// begin makes a scheduler that has seen all objects. One worker, so that the order of nodes is certain.
func begin(ctx context.Context, pod *v1.Pod, objects []runtime.Object) (*attempt, error) {
	made, err := schedulerOf(ctx, objects, scheduler.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	nominate(klog.FromContext(ctx), made, objects)
	own, snapshot, err := profileOf(made, pod)
	if err != nil {
		return nil, err
	}
	if err := made.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return nil, fmt.Errorf("cannot take a snapshot: %w", err)
	}
	return &attempt{
		pod: pod, scheduler: made, profile: own, snapshot: snapshot, state: framework.NewCycleState(),
		answer: answer{Nodes: map[string]status{}},
	}, nil
}

// schedulerOf makes a scheduler that has seen all objects.
func schedulerOf(
	ctx context.Context, objects []runtime.Object, options ...scheduler.Option,
) (*scheduler.Scheduler, error) {
	client := fake.NewSimpleClientset(objects...)
	informers := informersOf(client)
	recorders := profile.RecorderFactory(func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	made, err := scheduler.New(ctx, client, informers, nil, recorders, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot make a scheduler: %w", err)
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := made.WaitForHandlersSync(ctx); err != nil {
		return nil, fmt.Errorf("cannot fill the caches: %w", err)
	}
	return made, nil
}

// profileOf is the pod's profile, and what it sees of nodes.
func profileOf(made *scheduler.Scheduler, pod *v1.Pod) (framework.Framework, *cache.Snapshot, error) {
	own, known := made.Profiles[pod.Spec.SchedulerName]
	if !known {
		return nil, nil, fmt.Errorf("no profile %q", pod.Spec.SchedulerName)
	}
	return own, own.SnapshotSharedLister().(*cache.Snapshot), nil
}

// nominate lets promises count that were made to pods before the objects came for which the queue held them.
func nominate(logger klog.Logger, made *scheduler.Scheduler, objects []runtime.Object) {
	for _, one := range objects {
		pod, is := one.(*v1.Pod)
		if !is || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == "" {
			continue
		}
		info, _ := framework.NewPodInfo(pod) // terms that make no sense are left out, as in the queue
		made.SchedulingQueue.AddNominatedPod(logger, info, nil)
	}
}

// queue says where the pod is before it is tried.
func (a *attempt) queue(ctx context.Context) {
	queued, is := queuedPod(ctx, a.scheduler, a.pod)
	if !is {
		return
	}
	a.answer.Queue, a.answer.Gate = "active", queued.GatingPlugin
	for _, one := range a.scheduler.SchedulingQueue.UnschedulablePods() {
		if one.UID == a.pod.UID {
			a.answer.Queue = "unschedulable"
		}
	}
}

func (a *attempt) decide(ctx context.Context) error {
	named, before, _ := a.profile.RunPreFilterPlugins(ctx, a.state, a.pod)
	a.answer.PreFilter = statusOf(before)
	if before.IsRejected() {
		return nil
	}
	if !before.IsSuccess() {
		return before.AsError()
	}
	if err := a.filter(ctx, named); err != nil || len(a.feasible) == 0 {
		return err
	}
	return a.score(ctx)
}

// filter asks about every node. named: those to which the plugins narrow the choice.
func (a *attempt) filter(ctx context.Context, named *fwk.PreFilterResult) error {
	nodes, err := a.snapshot.NodeInfos().List()
	if err != nil {
		return fmt.Errorf("cannot list nodes: %w", err)
	}
	for _, info := range nodes {
		name := info.Node().Name
		if !named.AllNodes() && !named.NodeNames.Has(name) {
			code := fwk.UnschedulableAndUnresolvable.String()
			a.answer.Nodes[name] = status{Code: code, Reasons: []string{"PreFilterResult"}}
			continue
		}
		found := a.profile.RunFilterPluginsWithNominatedPods(ctx, a.state, a.pod, info)
		a.answer.Nodes[name] = statusOf(found)
		if found.IsSuccess() {
			a.feasible = append(a.feasible, info)
		}
	}
	return nil
}

func (a *attempt) score(ctx context.Context) error {
	if before := a.profile.RunPreScorePlugins(ctx, a.state, a.pod, a.feasible); !before.IsSuccess() {
		return before.AsError()
	}
	scores, done := a.profile.RunScorePlugins(ctx, a.state, a.pod, a.feasible)
	if !done.IsSuccess() {
		return done.AsError()
	}
	a.answer.Scores = map[string]score{}
	for _, node := range scores {
		own := score{Total: node.TotalScore, Plugins: map[string]int64{}}
		for _, plugin := range node.Scores {
			own.Plugins[plugin.Name] = plugin.Score
		}
		a.answer.Scores[node.Name] = own
	}
	return nil
}

func statusOf(found *fwk.Status) status {
	if found == nil {
		return status{Code: fwk.Success.String()}
	}
	return status{Code: found.Code().String(), Plugin: found.Plugin(), Reasons: found.Reasons()}
}
