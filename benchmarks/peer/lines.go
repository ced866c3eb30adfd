package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"
)

// handler turns one request into one answer.
type handler func(line []byte) any

// Fault is the answer to a request that the peer itself could not deal with,
// in contrast to an error which is the reference's answer.
type Fault struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Fault string          `json:"fault"`
}

// serve answers each non-empty line. It flushes only when no further request
// waits in the buffer, so that a batch costs few system calls and a single
// request is answered at once.
func serve(in io.Reader, out io.Writer, answer handler) error {
	r := bufio.NewReaderSize(in, 1<<20)
	w := bufio.NewWriterSize(out, 1<<16)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		line, readErr := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := enc.Encode(answer(line)); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
		}
		if r.Buffered() == 0 || readErr != nil {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("read a request: %w", readErr)
		}
	}
}

// decode parses a request strictly: what it does not know is an error, because
// an ignored field would make the answer one to another question.
func decode(line []byte, request any) error {
	strict, err := kjson.UnmarshalStrict(line, request)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return fmt.Errorf("parse the request: %w", err)
	}
	return nil
}

// faultOf keeps what identifies the request, if that much can be read.
func faultOf(line []byte, err error) *Fault {
	f := &Fault{}
	_ = json.Unmarshal(line, f)
	f.Fault = err.Error()
	return f
}

// within gives up waiting for answers that take too long. The reference cannot
// be interrupted everywhere, so the work goes on in the background.
func within(limit time.Duration, answer handler) handler {
	if limit <= 0 {
		return answer
	}
	return func(line []byte) any {
		done := make(chan any, 1)
		go func() { done <- answer(line) }()
		select {
		case result := <-done:
			return result
		case <-time.After(limit):
			return faultOf(line, fmt.Errorf("no answer within %s", limit))
		}
	}
}

// panicError is a panic in the reference's code, as an error.
type panicError struct {
	value any
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// catchPanic is deferred where the reference gets called.
func catchPanic(err *error) {
	if r := recover(); r != nil {
		*err = &panicError{value: r}
		klog.V(1).Infof("panic: %v\n%s", r, debug.Stack())
	}
}

func isPanic(err error) bool {
	var p *panicError
	return errors.As(err, &p)
}
