package main

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

// runWebhook is the real one.
func runWebhook(ctx context.Context, arguments []string) error {
	configuration, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, configuration)
	if err := parse(flags, arguments); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(klog.Background(), *configuration)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
