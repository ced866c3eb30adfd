package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
)

// ClusterTimes is the report of placing the pods of a case one after the other,
// the way kube-scheduler does: a new allocator per pod, nodes in rotating order.
type ClusterTimes struct {
	ID             json.RawMessage `json:"id,omitempty"`
	Name           string          `json:"name,omitempty"`
	Implementation string          `json:"implementation"`
	Nodes          int             `json:"nodes"`
	Pods           int             `json:"pods"`
	Placed         int             `json:"placed"`
	Unschedulable  int             `json:"unschedulable"`
	Failed         int             `json:"failed"`
	FirstError     string          `json:"firstError,omitempty"`
	FeasibleWanted int             `json:"feasibleWanted"`
	Parallel       int             `json:"parallel"`
	Seconds        float64         `json:"seconds"`
	PodsPerSecond  float64         `json:"podsPerSecond"`
	// Per pod, and its parts.
	Pod          Times       `json:"pod"`
	State        Times       `json:"state"`
	NewAllocator Times       `json:"newAllocator"`
	Allocate     Times       `json:"allocate"`
	NodesTried   float64     `json:"nodesTriedPerPod"`
	Placements   []Placement `json:"placements,omitempty"`
	// MeanByTenth: the mean time of a pod in each tenth of the run, in
	// nanoseconds, to show how it changes as the cluster fills.
	MeanByTenth []int64 `json:"meanByTenth,omitempty"`
}

// Placement is where a pod landed; an empty node means nowhere.
type Placement struct {
	Pod     string      `json:"pod"`
	Node    string      `json:"node"`
	Devices [][4]string `json:"devices,omitempty"` // request, driver, pool, device
	Error   string      `json:"error,omitempty"`
}

type clusterOptions struct {
	pods       int
	feasible   int
	parallel   int
	placements bool
	maxSeconds float64
}

func benchClusterCommand(flags *flag.FlagSet) func() handler {
	o := &clusterOptions{}
	timeout := timeoutFlag(flags)
	flags.IntVar(&o.pods, "pods", 0, "number of pods (0: of the case)")
	flags.IntVar(&o.feasible, "feasible", 1, "stop after this many feasible nodes; -1: as many as kube-scheduler looks for")
	flags.IntVar(&o.parallel, "parallel", 1, "nodes tried at the same time (kube-scheduler: 16; only where more than one feasible node is wanted)")
	flags.BoolVar(&o.placements, "placements", false, "answer node and devices of each pod")
	flags.Float64Var(&o.maxSeconds, "max-seconds", 0, "stop after this time (0: no limit)")
	return func() handler {
		return answerCases(*timeout, func(q *question) (any, error) { return q.placeAll(o) })
	}
}

// numFeasible is how many feasible nodes kube-scheduler looks for by default.
func numFeasible(nodes int) int {
	if nodes < 100 {
		return nodes
	}
	percentage := max(50-nodes/125, 5)
	return max(nodes*percentage/100, 100)
}

// simulation is the state of placing one case's pods.
type simulation struct {
	*question
	o       *clusterOptions
	report  *ClusterTimes
	next    int // node at which the next pod starts
	tried   int
	pod     []int64
	state   []int64
	create  []int64
	attempt []int64
}

func (q *question) placeAll(o *clusterOptions) (*ClusterTimes, error) {
	pods := max(o.pods, 1)
	if o.pods == 0 && q.Pods > 0 {
		pods = q.Pods
	}
	r := &simulation{question: q, o: o, report: &ClusterTimes{
		ID: q.ID, Name: q.Name, Nodes: len(q.nodeList), Parallel: o.parallel, FeasibleWanted: o.feasible,
	}}
	if o.feasible < 0 {
		r.report.FeasibleWanted = numFeasible(len(q.nodeList))
	}
	begin := time.Now()
	for p := range pods {
		if err := r.place(p); err != nil {
			return nil, err
		}
		if o.maxSeconds > 0 && time.Since(begin) > seconds(o.maxSeconds) {
			break
		}
	}
	r.finish(time.Since(begin))
	return r.report, nil
}

// place does what kube-scheduler does for one pod: copy the state and build an
// allocator (PreFilter), try nodes (Filter), record the choice (Reserve).
func (r *simulation) place(p int) error {
	claims := claimsOfPod(r.Claims, p)
	start := time.Now()
	state := cloneState(r.question.state)
	r.question.slices = slices.Clone(r.question.slices)
	copied := time.Now()
	a, err := r.newAllocator(state)
	if err != nil {
		return err
	}
	created := time.Now()
	found, err := r.tryNodes(a, claims)
	attempted := time.Now()
	r.record(p, found, err)
	end := time.Now()

	r.report.Implementation = channelOf(a)
	r.pod = append(r.pod, end.Sub(start).Nanoseconds())
	r.state = append(r.state, copied.Sub(start).Nanoseconds()+end.Sub(attempted).Nanoseconds())
	r.create = append(r.create, created.Sub(copied).Nanoseconds())
	r.attempt = append(r.attempt, attempted.Sub(created).Nanoseconds())
	return nil
}

func claimsOfPod(templates []*resourceapi.ResourceClaim, pod int) []*resourceapi.ResourceClaim {
	claims := make([]*resourceapi.ResourceClaim, len(templates))
	for i, t := range templates {
		claims[i] = t.DeepCopy()
		claims[i].Name = fmt.Sprintf("%s-pod-%d", t.Name, pod)
		claims[i].UID = types.UID(claims[i].Name)
	}
	return claims
}

func (r *simulation) record(p int, found *feasibleNode, err error) {
	placement := Placement{Pod: fmt.Sprintf("pod-%d", p)}
	switch {
	case err != nil:
		r.report.Failed++
		placement.Error = err.Error()
		if r.report.FirstError == "" {
			r.report.FirstError = placement.Error
		}
	case found == nil:
		r.report.Unschedulable++
	default:
		r.report.Placed++
		placement.Node = r.nodeList[found.node].Name
		for i := range found.results {
			occupy(&r.question.state, found.results[i].Devices.Results, r.features.ConsumableCapacity)
			for _, d := range found.results[i].Devices.Results {
				placement.Devices = append(placement.Devices, [4]string{d.Request, d.Driver, d.Pool, d.Device})
			}
		}
	}
	if r.o.placements {
		r.report.Placements = append(r.report.Placements, placement)
	}
}

// feasibleNode is a node, by position, on which the claims fit; rank is its place in the order of trying.
type feasibleNode struct {
	node, rank int
	results    []resourceapi.AllocationResult
}

// filter is one pod's pass over the nodes, by any number of workers.
type filter struct {
	started, found atomic.Int64
	mutex          sync.Mutex
	best           *feasibleNode
	fatal          error
}

// tryNodes gives the first feasible node in rotating order, or nil, and an error
// where the whole attempt fails. Like kube-scheduler, it stops once enough nodes are feasible.
func (r *simulation) tryNodes(a structured.Allocator, claims []*resourceapi.ResourceClaim) (*feasibleNode, error) {
	f := &filter{}
	workers := r.o.parallel
	if r.report.FeasibleWanted == 1 {
		workers = 1
	}
	var group sync.WaitGroup
	for range max(workers, 1) {
		group.Go(func() { r.work(f, a, claims) })
	}
	group.Wait()
	tried := min(int(f.started.Load()), len(r.nodeList))
	r.tried += tried
	r.next = (r.next + tried) % len(r.nodeList)
	if f.fatal != nil {
		return nil, f.fatal
	}
	return f.best, nil
}

func (r *simulation) work(f *filter, a structured.Allocator, claims []*resourceapi.ResourceClaim) {
	for f.found.Load() < int64(r.report.FeasibleWanted) {
		rank := int(f.started.Add(1) - 1)
		if rank >= len(r.nodeList) {
			return
		}
		node := (r.next + rank) % len(r.nodeList)
		results, err := r.allocate(a, r.nodeList[node], claims)
		switch {
		case err != nil && errorKind(err) != "node":
			f.fail(err, r.report.FeasibleWanted)
		case err == nil && len(results) == len(claims):
			f.add(&feasibleNode{node, rank, results})
		}
	}
}

func (f *filter) fail(err error, enough int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.fatal == nil {
		f.fatal = err
	}
	f.found.Add(int64(enough))
}

func (f *filter) add(n *feasibleNode) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.best == nil || n.rank < f.best.rank {
		f.best = n
	}
	f.found.Add(1)
}

func (r *simulation) finish(total time.Duration) {
	n := len(r.pod)
	r.report.Pods = n
	r.report.Seconds = total.Seconds()
	r.report.PodsPerSecond = float64(n) / total.Seconds()
	r.report.NodesTried = float64(r.tried) / float64(n)
	r.report.Pod, r.report.State = timesOf(r.pod), timesOf(r.state)
	r.report.NewAllocator, r.report.Allocate = timesOf(r.create), timesOf(r.attempt)
	if n < 10 {
		return
	}
	for t := range 10 {
		r.report.MeanByTenth = append(r.report.MeanByTenth, timesOf(r.pod[n*t/10:n*(t+1)/10]).Mean)
	}
}
