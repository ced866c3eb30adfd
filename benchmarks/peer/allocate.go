package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// fixedShareID stands for the random ids of shares in the answers.
const fixedShareID = types.UID("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa")

// celCacheSize is the number of compiled expressions that kube-scheduler keeps.
const celCacheSize = 10

// CaseAnswer is the outcome of a case, by name of the node.
type CaseAnswer struct {
	ID             json.RawMessage `json:"id,omitempty"`
	Name           string          `json:"name,omitempty"`
	Implementation string          `json:"implementation"`
	// Results: one per claim, or null where the claims do not fit together.
	Results map[string][]resourceapi.AllocationResult `json:"results"`
	Errors  map[string]string                         `json:"errors"`
	// ErrorKinds: "node" (scheduling goes on with other nodes), "timeout",
	// "panic", "fatal" (the scheduling attempt is over).
	ErrorKinds map[string]string `json:"errorKinds"`
	// Steps counts the steps of the search, where the implementation counts them.
	Steps map[string]int64 `json:"steps,omitempty"`
	// Variants: the outcomes seen by a repeated call, where there are several.
	Variants map[string][]Outcome `json:"variants,omitempty"`
}

// Outcome is what one call answered on one node.
type Outcome struct {
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error,omitempty"`
	Kind    string                         `json:"kind,omitempty"`
}

// question is a case made ready to be asked, any number of times.
type question struct {
	*Case
	nodeList []*v1.Node
	state    structured.AllocatedState
	slices   []*allocatorSlice
	lister   *classLister
	cache    *dracel.Cache
	timeout  time.Duration
}

func allocateCommand(flags *flag.FlagSet) func() handler {
	timeout := timeoutFlag(flags)
	return func() handler {
		return answerCases(*timeout, func(q *question) (any, error) { return q.answer() })
	}
}

func timeoutFlag(flags *flag.FlagSet) *time.Duration {
	return flags.Duration("timeout", 10*time.Second, "limit of a call where the case sets no timeoutSeconds (0: none)")
}

func answerCases(timeout time.Duration, answer func(*question) (any, error)) handler {
	return func(line []byte) any {
		c, err := decodeCase(line)
		if err != nil {
			return faultOf(line, err)
		}
		q, err := newQuestion(c, timeout)
		if err != nil {
			return faultOf(line, err)
		}
		result, err := answer(q)
		if err != nil {
			return faultOf(line, err)
		}
		return result
	}
}

func newQuestion(c *Case, timeout time.Duration) (*question, error) {
	if err := pinImplementation(c.Implementation); err != nil {
		return nil, err
	}
	nodes, err := c.nodes()
	if err != nil {
		return nil, err
	}
	state, err := stateOf(c)
	if err != nil {
		return nil, err
	}
	if c.TimeoutSeconds > 0 {
		timeout = seconds(c.TimeoutSeconds)
	}
	slices, err := allocatorSlices(c.Slices)
	if err != nil {
		return nil, err
	}
	lister := newClassLister(c.DeviceClasses)
	q := &question{Case: c, nodeList: nodes, state: state, slices: slices, lister: lister, timeout: timeout}
	q.cache = q.newCache()
	return q, nil
}

func (c *Case) newCache() *dracel.Cache {
	return dracel.NewCache(celCacheSize, dracel.Features{
		EnableConsumableCapacity: c.features.ConsumableCapacity,
		EnableListTypeAttributes: c.features.ListTypeAttributes,
	})
}

// pinImplementation is global in the reference; requests are answered one at a time.
func pinImplementation(name string) error {
	switch name {
	case "auto":
		structured.EnableAllocators()
	case "stable", "incubating", "experimental":
		structured.EnableAllocators(name)
	default:
		return fmt.Errorf("unknown implementation %q: stable, incubating, experimental or auto", name)
	}
	return nil
}

func (q *question) newAllocator(state structured.AllocatedState) (a structured.Allocator, err error) {
	defer catchPanic(&err)
	return structured.NewAllocator(context.Background(), q.features, state, q.lister, q.slices, q.cache)
}

func (q *question) answer() (*CaseAnswer, error) {
	a, err := q.newAllocator(q.state)
	if err != nil {
		return nil, err
	}
	answer := &CaseAnswer{
		ID: q.ID, Name: q.Name, Implementation: channelOf(a),
		Results: map[string][]resourceapi.AllocationResult{}, Errors: map[string]string{}, ErrorKinds: map[string]string{},
		Steps: map[string]int64{}, Variants: map[string][]Outcome{},
	}
	for _, node := range q.nodeList {
		answer.add(node.Name, q.outcomes(a, node))
		if steps, counted := stepsOf(a); counted {
			answer.Steps[node.Name] = steps - sum(answer.Steps)
		}
	}
	return answer, nil
}

// outcomes are the distinct ones, in the order in which they were first seen.
func (q *question) outcomes(a structured.Allocator, node *v1.Node) []Outcome {
	var distinct []Outcome
	seen := map[string]bool{}
	for range max(q.Repeat, 1) {
		o := q.call(a, node)
		key, _ := json.Marshal(o)
		if !seen[string(key)] {
			seen[string(key)] = true
			distinct = append(distinct, o)
		}
	}
	return distinct
}

func (q *question) call(a structured.Allocator, node *v1.Node) Outcome {
	results, err := q.allocate(a, node, q.Claims)
	fixShareIDs(results)
	o := Outcome{Results: results, Kind: errorKind(err)}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

func (q *question) allocate(a structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, err error) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if q.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, q.timeout)
	}
	defer cancel()
	defer catchPanic(&err)
	return a.Allocate(ctx, node, claims)
}

func (a *CaseAnswer) add(node string, outcomes []Outcome) {
	first := outcomes[0]
	a.Results[node] = first.Results
	if first.Kind != "" {
		a.Errors[node], a.ErrorKinds[node] = first.Error, first.Kind
	}
	if len(outcomes) > 1 {
		a.Variants[node] = outcomes
	}
}

func errorKind(err error) string {
	switch {
	case err == nil:
		return ""
	case isPanic(err):
		return "panic"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return "node"
	default:
		return "fatal"
	}
}

func fixShareIDs(results []resourceapi.AllocationResult) {
	for i := range results {
		for j := range results[i].Devices.Results {
			if r := &results[i].Devices.Results[j]; r.ShareID != nil {
				id := fixedShareID
				r.ShareID = &id
			}
		}
	}
}

// stepsOf reads the counter by reflection, because its type is internal to the reference.
func stepsOf(a structured.Allocator) (int64, bool) {
	m := reflect.ValueOf(a).MethodByName("GetStats")
	if !m.IsValid() {
		return 0, false
	}
	f := m.Call(nil)[0].FieldByName("NumAllocateOneInvocations")
	if !f.IsValid() {
		return 0, false
	}
	return f.Int(), true
}

func channelOf(a structured.Allocator) string {
	m := reflect.ValueOf(a).MethodByName("Channel")
	if !m.IsValid() {
		return ""
	}
	return m.Call(nil)[0].String()
}

func sum(values map[string]int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}
