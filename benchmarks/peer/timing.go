package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Times summarises repeated measurements, in nanoseconds.
type Times struct {
	N      int   `json:"n"`
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	P90    int64 `json:"p90"`
	P99    int64 `json:"p99"`
	Max    int64 `json:"max"`
	Mean   int64 `json:"mean"`
}

func timesOf(nanos []int64) Times {
	sorted := slices.Clone(nanos)
	slices.Sort(sorted)
	var total int64
	for _, t := range sorted {
		total += t
	}
	return Times{
		N: len(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Mean: total / int64(len(sorted)),
		Median: percentile(sorted, 50), P90: percentile(sorted, 90), P99: percentile(sorted, 99),
	}
}

// percentile of an ascending list, by the nearest rank.
func percentile(sorted []int64, p float64) int64 {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// AllocateTimes is the timing of a case, by name of the node.
type AllocateTimes struct {
	ID             json.RawMessage  `json:"id,omitempty"`
	Name           string           `json:"name,omitempty"`
	Implementation string           `json:"implementation"`
	NewAllocator   Times            `json:"newAllocator"`
	Allocate       map[string]Times `json:"allocate"`
	// Kinds of error, as in the answer of "allocate"; a timeout's time is the limit.
	ErrorKinds map[string]string `json:"errorKinds"`
}

type timingOptions struct {
	repeat     int
	fresh      bool
	maxSeconds float64
}

func benchAllocateCommand(flags *flag.FlagSet) func() handler {
	o := &timingOptions{}
	timeout := timeoutFlag(flags)
	flags.IntVar(&o.repeat, "repeat", 101, "calls per node")
	flags.BoolVar(&o.fresh, "fresh", false, "a new allocator and an empty CEL cache for each call: all caches cold")
	flags.Float64Var(&o.maxSeconds, "max-seconds", 10, "stop repeating on a node after this time")
	return func() handler {
		return answerCases(*timeout, func(q *question) (any, error) { return q.time(o) })
	}
}

func (q *question) time(o *timingOptions) (*AllocateTimes, error) {
	answer := &AllocateTimes{ID: q.ID, Name: q.Name, Allocate: map[string]Times{}, ErrorKinds: map[string]string{}}
	var creation []int64
	for _, node := range q.nodeList {
		var nanos []int64
		var a structured.Allocator
		for begin := time.Now(); len(nanos) < max(o.repeat, 1); {
			if a == nil || o.fresh {
				start := time.Now()
				fresh, err := q.coldAllocator(o.fresh)
				if err != nil {
					return nil, err
				}
				a = fresh
				creation = append(creation, time.Since(start).Nanoseconds())
			}
			taken, kind := q.timeOne(a, node)
			nanos = append(nanos, taken)
			if kind != "" {
				answer.ErrorKinds[node.Name] = kind
			}
			if time.Since(begin) > seconds(o.maxSeconds) {
				break
			}
		}
		answer.Allocate[node.Name] = timesOf(nanos)
		answer.Implementation = channelOf(a)
	}
	answer.NewAllocator = timesOf(creation)
	return answer, nil
}

func (q *question) coldAllocator(cold bool) (structured.Allocator, error) {
	if cold {
		q.cache = q.newCache()
	}
	return q.newAllocator(q.state)
}

func (q *question) timeOne(a structured.Allocator, node *v1.Node) (nanos int64, kind string) {
	start := time.Now()
	_, err := q.allocate(a, node, q.Claims)
	return time.Since(start).Nanoseconds(), errorKind(err)
}

// CELTimesRequest asks how long expressions take over many devices.
type CELTimesRequest struct {
	ID          json.RawMessage `json:"id,omitempty"`
	Expressions []string        `json:"expressions"`
	// Devices, or DevicesFile: a path to a JSON list of devices.
	Devices     []*Device `json:"devices,omitempty"`
	DevicesFile string    `json:"devicesFile,omitempty"`
	Repeat      int       `json:"repeat,omitempty"`
}

// CELTimes has one entry per expression.
type CELTimes struct {
	ID      json.RawMessage `json:"id,omitempty"`
	Devices int             `json:"devices"`
	Compile []Times         `json:"compile"`
	// PerDevice: one pass over all devices, divided by their number.
	PerDevice []Times `json:"perDevice"`
	Matches   []int   `json:"matches"`
	Failures  []int   `json:"failures"`
}

// deviceFile keeps the devices of the last file that was asked for.
type deviceFile struct {
	path    string
	devices []*Device
}

func benchCELCommand(*flag.FlagSet) func() handler {
	return func() handler {
		file := &deviceFile{}
		return func(line []byte) any {
			request := &CELTimesRequest{}
			if err := decode(line, request); err != nil {
				return faultOf(line, err)
			}
			answer, err := file.time(request)
			if err != nil {
				return faultOf(line, err)
			}
			return answer
		}
	}
}

func (f *deviceFile) time(request *CELTimesRequest) (*CELTimes, error) {
	devices := request.Devices
	if request.DevicesFile != "" {
		if err := f.read(request.DevicesFile); err != nil {
			return nil, err
		}
		devices = f.devices
	}
	if len(devices) == 0 {
		return nil, errors.New("no devices: give devices or devicesFile")
	}
	answer := &CELTimes{ID: request.ID, Devices: len(devices)}
	for _, expr := range request.Expressions {
		if err := answer.add(expr, devices, max(request.Repeat, 1)); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (f *deviceFile) read(path string) error {
	if f.path == path {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("devicesFile: %w", err)
	}
	var devices []*Device
	if err := decode(data, &devices); err != nil {
		return fmt.Errorf("devicesFile %s: %w", path, err)
	}
	f.path, f.devices = path, devices
	return nil
}

func (t *CELTimes) add(expr string, devices []*Device, repeat int) error {
	var compiling, passing []int64
	var matches, failures int
	for range repeat {
		start := time.Now()
		p, err := compile(compileKey{expr: expr})
		compiling = append(compiling, time.Since(start).Nanoseconds())
		if err != nil {
			return err
		}
		if p.Error != nil {
			return fmt.Errorf("expression %q: %s", expr, p.Error.Detail)
		}
		start = time.Now()
		matches, failures = p.pass(devices)
		passing = append(passing, time.Since(start).Nanoseconds()/int64(len(devices)))
	}
	t.Compile = append(t.Compile, timesOf(compiling))
	t.PerDevice = append(t.PerDevice, timesOf(passing))
	t.Matches = append(t.Matches, matches)
	t.Failures = append(t.Failures, failures)
	return nil
}

func (p *program) pass(devices []*Device) (matches, failures int) {
	for _, d := range devices {
		device, err := celDevice(d)
		if err != nil {
			failures++
			continue
		}
		switch result, _, err := p.DeviceMatches(context.Background(), device); {
		case err != nil:
			failures++
		case result:
			matches++
		}
	}
	return matches, failures
}
