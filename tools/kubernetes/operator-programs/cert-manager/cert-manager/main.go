// Program cert-manager is the controller, the webhook or the cainjector of cert-manager.
//
// Their own programs are in modules that no proxy serves; these are the same parts, put together
// for what a cluster here needs: issuers that sign themselves or with an authority in a Secret.
// It takes the arguments that cert-manager's chart gives, and needs few of them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var parts = map[string]func(context.Context, []string) error{
	"controller": runController,
	"webhook":    runWebhook,
	"cainjector": runInjector,
}

// parse takes the flags of `set`, and lets those of the real program pass.
func parse(set *pflag.FlagSet, arguments []string) error {
	set.ParseErrorsAllowlist.UnknownFlags = true
	return set.Parse(arguments)
}

func run() error {
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		return fmt.Errorf("usage: cert-manager controller|webhook|cainjector [FLAGS]")
	}
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return parts[os.Args[1]](ctx, os.Args[2:])
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}
