// Package testcluster starts clusters of processes for tests.
package testcluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dslide.dev/dslide"
)

// Within so long every server is ready, on a busy machine.
const patience = 2 * time.Minute

// Programs returns the folder of the programs: DSLIDE_BIN_DIR, or build/bin of the checkout. Without
// them the test is skipped, but where DSLIDE_BIN_DIR names a folder it fails.
func Programs(t testing.TB) string {
	t.Helper()
	named := os.Getenv("DSLIDE_BIN_DIR")
	folder := named
	if folder == "" {
		_, here, _, _ := runtime.Caller(0)
		folder = filepath.Join(filepath.Dir(here), "../../../../build/bin")
	}
	if _, err := os.Stat(filepath.Join(folder, "dslide")); err != nil {
		if named != "" {
			t.Fatalf("DSLIDE_BIN_DIR: there are no programs in %s", folder)
		}
		t.Skipf("there are no programs in %s: ./run build, or name their folder in DSLIDE_BIN_DIR", folder)
	}
	return folder
}

// Run runs a program to its end and returns what it wrote to stdout.
func Run(t testing.TB, program string, arguments ...string) []byte {
	t.Helper()
	command := exec.Command(filepath.Join(Programs(t), program), arguments...)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(arguments, " "), err, out, &said)
	}
	return out
}

// A Cluster is a coordinator and shards, processes of this machine.
type Cluster struct {
	Address string
	t       testing.TB
	folder  string // certificates, data and logs
	tls     bool
	shards  []*server
}

type server struct {
	start   func() // again at the same address
	command *exec.Cmd
	ended   chan struct{}
}

// Options are of a cluster.
type Options struct {
	Shards int
	// Servers and clients show certificates.
	TLS bool
	// Rows live in memory only.
	Volatile bool
}

// Start starts a cluster, which ends with the test.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	c := &Cluster{Address: freeAddress(t), t: t, folder: t.TempDir(), tls: options.TLS}
	if c.tls {
		Run(t, "dslide", "certs", "dev", "--output", c.folder)
	}
	c.serve("coordinator", "coordinator", "dslide-coordinator", "--listen", c.Address,
		"--shards", strconv.Itoa(options.Shards), "--data-dir", filepath.Join(c.folder, "coordinator"))
	for i := range options.Shards {
		number := strconv.Itoa(i)
		flags := []string{"--coordinator", c.Address, "--listen", freeAddress(t), "--shard-id", number, "--threads", "1"}
		if !options.Volatile {
			flags = append(flags, "--durability", "log", "--data-dir", filepath.Join(c.folder, "shard-"+number))
		}
		c.shards = append(c.shards, c.serve("shard-"+number, "shard", "dslide-shard", flags...))
	}
	c.Dial("trainer").Close()
	return c
}

// freeAddress is from below Linux's ports of outgoing connections, so that none takes it while no
// server has it.
func freeAddress(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(32768-10000))
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return address
	}
}

// Serve starts dslide serve for a model of a plaintext cluster; it ends with the test. Returns its
// address.
func (c *Cluster) Serve(model string) string {
	address := freeAddress(c.t)
	c.serve("serve-"+model, "reader", "dslide", "serve", "--cluster", c.Address, "--name", model, "--http", "",
		"--listen", address)
	return address
}

func (c *Cluster) serve(name, role, program string, arguments ...string) *server {
	c.t.Helper()
	path := filepath.Join(Programs(c.t), program)
	arguments = append(append(arguments, "--admin", ""), c.TLSFlags(role, "--tls-")...)
	log, err := os.OpenFile(filepath.Join(c.folder, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &server{}
	s.start = func() {
		s.command, s.ended = exec.Command(path, arguments...), make(chan struct{})
		s.command.Stderr = log
		s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		started := make(chan error)
		go func() {
			runtime.LockOSThread() // it dies with the thread that has started it
			err := s.command.Start()
			started <- err
			if err == nil {
				_ = s.command.Wait()
			}
			close(s.ended)
		}()
		if err := <-started; err != nil {
			c.t.Fatal(err)
		}
	}
	s.start()
	c.t.Cleanup(func() {
		s.kill()
		if c.t.Failed() {
			said, _ := os.ReadFile(log.Name())
			c.t.Logf("%s said:\n%s", name, said[max(0, len(said)-2000):])
		}
		_ = log.Close()
	})
	return s
}

func (s *server) kill() {
	_ = s.command.Process.Kill()
	<-s.ended
}

// RestartShard kills a shard and starts it again with its data.
func (c *Cluster) RestartShard(shard int) {
	c.shards[shard].kill()
	c.shards[shard].start()
}

// AwaitUpdates returns when every shard has applied so many updates of a model, or with the context.
func (c *Cluster) AwaitUpdates(ctx context.Context, model string, updates int64) {
	client := c.Dial("trainer")
	for ctx.Err() == nil {
		if opened, err := client.Model(ctx, model); err == nil && applied(ctx, opened) >= updates {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// applied returns the updates of the table and shard with the fewest; 0 while a shard is away.
func applied(ctx context.Context, model *dslide.Model) int64 {
	parts, err := model.Describe(ctx, false)
	if err != nil {
		return 0
	}
	fewest := int64(math.MaxInt64)
	for _, part := range parts {
		for _, table := range part.Tables {
			fewest = min(fewest, table.AppliedSteps)
		}
	}
	return fewest
}

// TLSFlags are those of a command line that shows the certificate of a role; none in plaintext.
func (c *Cluster) TLSFlags(role, prefix string) []string {
	if !c.tls {
		return nil
	}
	tls := c.TLS(role)
	return []string{prefix + "ca", tls.CA, prefix + "cert", tls.Cert, prefix + "key", tls.Key}
}

// TLS names the certificate of a role; nil in plaintext.
func (c *Cluster) TLS(role string) *dslide.TLS {
	if !c.tls {
		return nil
	}
	return &dslide.TLS{CA: filepath.Join(c.folder, "ca.crt"), Cert: filepath.Join(c.folder, role+".crt"),
		Key: filepath.Join(c.folder, role+".key")}
}

// Options are those of a patient client with the certificate of a role.
func (c *Cluster) Options(role string) *dslide.Options {
	return &dslide.Options{TLS: c.TLS(role), Timeout: patience, Patience: patience}
}

// Dial waits until the cluster is ready, and returns a client with the certificate of a role.
func (c *Cluster) Dial(role string) *dslide.Cluster {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := dslide.Dial(ctx, c.Address, c.Options(role))
	if err != nil {
		c.t.Fatal(errors.Join(err, ctx.Err()))
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}
