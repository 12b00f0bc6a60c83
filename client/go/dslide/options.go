package dslide

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Options say how a client calls. The zero value has every default.
type Options struct {
	// Certificates; nil: plaintext, which may not leave this machine unless Insecure.
	TLS *TLS
	// Allows plaintext to other machines, on a network that you trust.
	Insecure bool
	// The deadline of each call whose context has no earlier one. 0: 30 s.
	Timeout time.Duration
	// For so long a call is repeated while nobody answers. 0: 4 s.
	Patience time.Duration
	// Names the training job in every change of rows, [a-z0-9-]{1,64}. "": "default".
	Job string
	// What every call sends as x-request-id, for the servers' logs: 1 to 64 visible ASCII
	// characters. "": a new one for each call.
	RequestID string
}

// TLS names the files (PEM) of encrypted connections.
type TLS struct {
	// Authorities of the servers. "": those of the system.
	CA string
	// This client's own certificate and key, for clusters that ask for one.
	Cert, Key string
}

var (
	namePattern      = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	requestIDPattern = regexp.MustCompile(`^[!-~]{1,64}$`)
)

// complete returns a copy with the defaults; nil stands for none set.
func (o *Options) complete() (Options, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if options.Timeout < 0 || options.Patience < 0 {
		return options, invalid("Timeout %v and Patience %v must not be negative", options.Timeout, options.Patience)
	}
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second
	}
	if options.Patience == 0 {
		options.Patience = 4 * time.Second
	}
	if options.Job == "" {
		options.Job = "default"
	}
	if !namePattern.MatchString(options.Job) {
		return options, invalid("Job %q is no name: use 1 to 64 of a-z, 0-9 and -", options.Job)
	}
	if options.RequestID != "" && !requestIDPattern.MatchString(options.RequestID) {
		return options, invalid("RequestID %q is not 1 to 64 visible ASCII characters", options.RequestID)
	}
	return options, nil
}

func (o *Options) credentials() (credentials.TransportCredentials, error) {
	if o.TLS == nil {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (o.TLS.Cert == "") != (o.TLS.Key == "") {
		return nil, invalid("TLS.Cert and TLS.Key belong together: give both")
	}
	if o.TLS.CA != "" {
		authorities, err := os.ReadFile(o.TLS.CA)
		if err != nil {
			return nil, invalid("TLS.CA: cannot read it: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, invalid("TLS.CA: %s has no certificate in PEM form", o.TLS.CA)
		}
	}
	if o.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.TLS.Cert, o.TLS.Key)
		if err != nil {
			return nil, invalid("TLS.Cert and TLS.Key: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// staysHere says whether a connection does not leave this machine.
func staysHere(address string) bool {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "unix-abstract:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (o *Options) checkAddress(address string) error {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "unix-abstract:") {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || number == 0 {
		return invalid("address %q is not host:port (for example 127.0.0.1:7000) or unix:PATH", address)
	}
	if o.TLS == nil && !o.Insecure && !staysHere(address) {
		return invalid("%q is another machine and the connection would not be encrypted: set Options.TLS, or "+
			"Options.Insecure to accept that on a network you trust", address)
	}
	return nil
}
