// Command peer answers questions by the code of Kubernetes itself: what its CEL
// compiler, its device allocator and its value types say.
//
// The tests of this project compare with it, and the benchmarks run beside it.
// Each subcommand reads one JSON request per line and writes one JSON answer per
// line, in the same order. README.md shows the requests by example.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/klog/v2"
)

const usage = `usage: peer SUBCOMMAND [flags] < requests > answers

  cel              compile and evaluate a CEL expression on a device
  allocate         allocate the claims of a case on its nodes
  bench cel        time expressions over many devices
  bench allocate   time the allocation of a case, call by call
  bench cluster    place the pods of a case one after the other
  quantity         parse a quantity; canonical text, integer, comparison
  semver           parse a semantic version; canonical text, comparison

peer SUBCOMMAND -h lists the flags.
`

// subcommands maps a name to the function that registers its flags and returns
// the handler, which is asked for only after the flags have been parsed.
var subcommands = map[string]func(*flag.FlagSet) func() handler{
	"cel":            celCommand,
	"allocate":       allocateCommand,
	"bench cel":      benchCELCommand,
	"bench allocate": benchAllocateCommand,
	"bench cluster":  benchClusterCommand,
	"quantity":       quantityCommand,
	"semver":         semverCommand,
}

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	name, args := subcommandName(args)
	command, known := subcommands[name]
	if !known {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	flags := flag.NewFlagSet("peer "+name, flag.ExitOnError)
	limit := flags.Duration("limit", 0, "give up on a request after this time and answer a fault (0: never); "+
		"what hangs keeps its processor until the program ends")
	klog.InitFlags(flags)
	klog.SetOutput(os.Stderr)
	prepare := command(flags)
	_ = flags.Parse(args) // ExitOnError: never returns an error.
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "peer %s: unexpected argument %q: requests are read from standard input\n", name, flags.Arg(0))
		return 2
	}
	if err := serve(os.Stdin, os.Stdout, within(*limit, prepare())); err != nil {
		fmt.Fprintf(os.Stderr, "peer %s: %v\n", name, err)
		return 1
	}
	return 0
}

func subcommandName(args []string) (string, []string) {
	switch {
	case len(args) == 0:
		return "", nil
	case args[0] == "bench" && len(args) > 1:
		return args[0] + " " + args[1], args[2:]
	default:
		return args[0], args[1:]
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second))
}
