package main

import (
	"encoding/json"
	"log"
	"os"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

type (
	claimID = types.UID
	result  = resourceapi.DeviceRequestAllocationResult
)

// step is one line of the file. Step: what was done; UID: to which pod or claim. Results and Config: what the claim has
// of the driver. Devices: by container, the CDI devices that it would get. Error: why it could not be done.
type step struct {
	Step    string                                      `json:"step"`
	UID     types.UID                                   `json:"uid,omitempty"`
	Driver  string                                      `json:"driver,omitempty"`
	Results []result                                    `json:"results,omitempty"`
	Config  []resourceapi.DeviceAllocationConfiguration `json:"config,omitempty"`
	Devices map[string][]string                         `json:"devices,omitempty"`
	Error   string                                      `json:"error,omitempty"`
}

// records is the file; its lines are complete.
type records struct {
	mutex sync.Mutex
	file  *os.File
}

func newRecords(path string) (*records, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &records{file: file}, err
}

func (r *records) write(one step) {
	line, err := json.Marshal(one)
	if err != nil {
		log.Fatal(err)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
