package main

import (
	"encoding/json"
	"flag"

	"github.com/blang/semver/v4"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ValueRequest is a text, and optionally another to compare it with.
type ValueRequest struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Text  string          `json:"text"`
	Other *string         `json:"other,omitempty"`
}

// ValueAnswer holds an error or the canonical text; for a quantity its integer value
// where it fits, rounded up; -1, 0 or 1 for the comparison with the other value.
type ValueAnswer struct {
	ID      json.RawMessage `json:"id,omitempty"`
	Text    string          `json:"text,omitempty"`
	Value   *int64          `json:"value,omitempty"`
	Milli   *int64          `json:"milli,omitempty"`
	Compare *int            `json:"compare,omitempty"`
	Sum     string          `json:"sum,omitempty"`
	Error   string          `json:"error,omitempty"`
}

func quantityCommand(*flag.FlagSet) func() handler {
	return func() handler { return answerValues(quantity) }
}

func semverCommand(*flag.FlagSet) func() handler {
	return func() handler { return answerValues(version) }
}

func answerValues(answer func(request *ValueRequest, answer *ValueAnswer) error) handler {
	return func(line []byte) any {
		request := &ValueRequest{}
		if err := decode(line, request); err != nil {
			return faultOf(line, err)
		}
		result := &ValueAnswer{ID: request.ID}
		if err := answer(request, result); err != nil {
			return &ValueAnswer{ID: request.ID, Error: err.Error()}
		}
		return result
	}
}

func quantity(request *ValueRequest, answer *ValueAnswer) (err error) {
	defer catchPanic(&err)
	q, err := resource.ParseQuantity(request.Text)
	if err != nil {
		return err
	}
	value, milli := q.Value(), q.MilliValue()
	answer.Value, answer.Milli = &value, &milli
	if request.Other != nil {
		other, err := resource.ParseQuantity(*request.Other)
		if err != nil {
			return err
		}
		order := q.Cmp(other)
		answer.Compare = &order
		total := q.DeepCopy()
		total.Add(other)
		answer.Sum = total.String()
	}
	answer.Text = q.String()
	return nil
}

func version(request *ValueRequest, answer *ValueAnswer) error {
	v, err := semver.Parse(request.Text)
	if err != nil {
		return err
	}
	answer.Text = v.String()
	if request.Other != nil {
		other, err := semver.Parse(*request.Other)
		if err != nil {
			return err
		}
		order := v.Compare(other)
		answer.Compare = &order
	}
	return nil
}
