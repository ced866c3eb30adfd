package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// Phases of an error, in the order in which they can occur.
const (
	phaseCompile = "compile" // lexing, parsing, checking, building the program
	phaseDevice  = "device"  // the device cannot be converted to CEL values
	phaseRuntime = "runtime"
	phaseOutput  = "output" // the value is of a type that is no answer
	phasePanic   = "panic"  // the reference crashes
)

// CELRequest is one expression on one device.
type CELRequest struct {
	ID   json.RawMessage `json:"id,omitempty"`
	Expr string          `json:"expr"`
	// Device may be absent: then the answer is about compiling only.
	Device *Device `json:"device,omitempty"`
	// Version, where given, must be the version of this program.
	Version string `json:"version,omitempty"`
	// Environment: "stored" (as the scheduler compiles; the default) or "new" (as the API server
	// compiles what is created). List attributes are enabled, except in "stored-nolist" and "new-nolist".
	Environment string `json:"environment,omitempty"`
	// Derived asks for the value of a derived attribute instead of a selector's bool.
	Derived bool `json:"derived,omitempty"`
	// Repeat evaluates this often and reports the range of the cost, which depends
	// on the random order of Go's maps.
	Repeat int `json:"repeat,omitempty"`
}

// Device is what a selector sees of a device, as in a v1 ResourceSlice.
type Device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
}

// CELAnswer holds exactly one of result, value and error, unless the request named no device.
type CELAnswer struct {
	ID     json.RawMessage              `json:"id,omitempty"`
	Result *bool                        `json:"result,omitempty"`
	Value  *resourceapi.DeviceAttribute `json:"value,omitempty"`
	Error  *CELError                    `json:"error,omitempty"`
	// Unstable: repeated evaluations did not all give the same result or phase.
	Unstable bool `json:"unstable,omitempty"`
	// MaxCost is the estimate, Cost the actual cost; CostHigh is set where repeated
	// evaluations cost between Cost and CostHigh.
	MaxCost  *uint64 `json:"max_cost,omitempty"`
	Cost     *uint64 `json:"cost,omitempty"`
	CostHigh *uint64 `json:"cost_hi,omitempty"`
}

// CELError says where the reference gave up, and its words.
type CELError struct {
	Phase   string `json:"phase"`
	Message string `json:"message"`
}

// program is a compiled expression which remembers what happened in its last evaluation.
type program struct {
	dracel.CompilationResult
	probe *probe
}

// probe stands between the reference's conversion of a device and its evaluation,
// to tell the phases of an error apart without looking at texts.
type probe struct {
	celProgram
	reached bool
	failed  bool
}

func (p *probe) ContextEval(ctx context.Context, input any) (value celValue, details *celDetails, err error) {
	p.reached = true
	value, details, err = p.celProgram.ContextEval(ctx, input)
	p.failed = err != nil
	return value, details, err
}

func (p *probe) phase() string {
	switch {
	case !p.reached:
		return phaseDevice
	case p.failed:
		return phaseRuntime
	default:
		return phaseOutput
	}
}

// compilers keeps the last compiled expression: requests about one expression come together.
type compilers struct {
	key  compileKey
	last *program
}

type compileKey struct {
	expr, environment string
	derived           bool
}

func celCommand(*flag.FlagSet) func() handler {
	return func() handler {
		c := &compilers{}
		return func(line []byte) any {
			request := &CELRequest{}
			if err := decode(line, request); err != nil {
				return faultOf(line, err)
			}
			answer, err := c.answer(request)
			if err != nil {
				return faultOf(line, err)
			}
			return answer
		}
	}
}

func (c *compilers) answer(request *CELRequest) (*CELAnswer, error) {
	if request.Version != "" && request.Version != kubernetesVersion {
		return nil, fmt.Errorf("this program holds the code of Kubernetes %s, not %s", kubernetesVersion, request.Version)
	}
	answer := &CELAnswer{ID: request.ID}
	p, err := c.compile(compileKey{request.Expr, request.Environment, request.Derived})
	if isPanic(err) {
		answer.Error = &CELError{phasePanic, err.Error()}
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	if p.Error != nil {
		answer.Error = &CELError{phaseCompile, p.Error.Detail}
		return answer, nil
	}
	answer.MaxCost = &p.MaxCost
	if request.Device == nil {
		return answer, nil
	}
	for range max(request.Repeat, 1) {
		p.evaluate(request, answer)
	}
	return answer, nil
}

func (c *compilers) compile(key compileKey) (*program, error) {
	if c.last != nil && c.key == key {
		return c.last, nil
	}
	p, err := compile(key)
	if err == nil {
		c.key, c.last = key, p
	}
	return p, err
}

var environments = map[string]environment.Type{
	"":       environment.StoredExpressions,
	"stored": environment.StoredExpressions,
	"new":    environment.NewExpressions,
}

func compile(key compileKey) (p *program, err error) {
	defer catchPanic(&err)
	name, withoutLists := strings.CutSuffix(key.environment, "-nolist")
	features := dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: !withoutLists}
	envType, known := environments[name]
	if !known {
		return nil, fmt.Errorf("unknown environment %q: stored or new, each also with -nolist", key.environment)
	}
	options := dracel.Options{EnvType: &envType}
	if key.derived {
		if err := allowDerivedAttribute(&options); err != nil {
			return nil, err
		}
	}
	p = &program{CompilationResult: dracel.GetCompiler(features).CompileCELExpression(key.expr, options)}
	p.probe = &probe{celProgram: p.Program}
	p.Program = p.probe
	return p, nil
}

// evaluate fills in the answer of one evaluation; further ones widen the range of the cost
// and tell whether the outcome varies.
func (p *program) evaluate(request *CELRequest, answer *CELAnswer) {
	before := answer.outcome()
	p.probe.reached, p.probe.failed = false, false
	answer.Result, answer.Value, answer.Error = nil, nil, nil
	device := *request.Device
	if request.Repeat > 1 {
		device.Attributes, device.Capacity = shuffled(device.Attributes), shuffled(device.Capacity)
	}
	details, err := p.evaluateInto(answer, &device, request.Derived)
	if err != nil {
		answer.Result, answer.Value = nil, nil
		answer.Error = &CELError{p.probe.phase(), err.Error()}
		if isPanic(err) {
			answer.Error.Phase = phasePanic
		}
	}
	if details != nil {
		answer.addCost(details.ActualCost())
	}
	answer.Unstable = answer.Unstable || before != "" && before != answer.outcome()
}

// shuffled fills a new map in random order: Go goes through a small map in the order in
// which it was filled, of which only the beginning is random.
func shuffled[K comparable, V any](m map[K]V) map[K]V {
	keys := slices.Collect(maps.Keys(m))
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	result := make(map[K]V, len(m))
	for _, k := range keys {
		result[k] = m[k]
	}
	return result
}

// outcome is what has to be equal between two evaluations; empty before the first.
func (a *CELAnswer) outcome() string {
	switch {
	case a.Error != nil:
		return a.Error.Phase
	case a.Result != nil:
		return strconv.FormatBool(*a.Result)
	case a.Value != nil:
		return a.Value.String()
	default:
		return ""
	}
}

func (p *program) evaluateInto(answer *CELAnswer, asked *Device, derived bool) (details *celDetails, err error) {
	defer catchPanic(&err)
	device, err := celDevice(asked)
	if err != nil {
		return nil, err
	}
	if derived {
		answer.Value, details, err = evaluateDerivedAttribute(&p.CompilationResult, device)
		return details, err
	}
	var result bool
	result, details, err = p.DeviceMatches(context.Background(), device)
	answer.Result = &result
	return details, err
}

func (a *CELAnswer) addCost(cost *uint64) {
	if cost == nil {
		return
	}
	if a.Cost == nil {
		a.Cost = cost
		return
	}
	low, high := min(*a.Cost, *cost), max(*a.Cost, *cost)
	if a.CostHigh != nil {
		high = max(high, *a.CostHigh)
	}
	a.Cost = &low
	if low != high {
		a.CostHigh = &high
	}
}
