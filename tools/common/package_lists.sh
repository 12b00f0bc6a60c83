# What tasks need, as Debian packages.
# shellcheck shell=bash
# shellcheck disable=SC2034  # Used by what sources this.

# libgtest-dev, libgmock-dev and libbenchmark-dev: every build knows its tests and benchmarks.
readonly BUILD_PACKAGES=(
  g++ cmake ninja-build mold ccache pkgconf git ca-certificates
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev
  librocksdb-dev prometheus-cpp-dev libcivetweb-dev libcurl4-openssl-dev libarchive-dev libcli11-dev
  nlohmann-json3-dev libhwy-dev libutf8proc-dev libssl-dev libc-ares-dev liblz4-dev libzstd-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
readonly PYTHON_PACKAGES=(python3-minimal libpython3-stdlib python3-venv)
readonly FORMAT_PACKAGES=(clang-format)
readonly LINT_PACKAGES=(clang-format clang-tidy clang libomp-dev shellcheck)
readonly SANITIZER_PACKAGES=(clang libclang-rt-14-dev libomp-dev llvm)
readonly CLIENT_PACKAGES=(python3-venv protobuf-compiler libprotobuf-dev)
# Each for its own benchmark; the programs build without them.
readonly BENCH_DENSE_PACKAGES=(libopenblas-openmp-dev)
readonly BENCH_CLUSTER_PACKAGES=(iproute2)
# Two of the peers are compiled where they are installed.
readonly BENCH_PEERS_PACKAGES=(python3-venv python3-dev)
# 55 packages of 74 MB, which the quick tests do without.
readonly BENCH_REPORT_PACKAGES=(python3-matplotlib)
# Without these, tests are skipped.
readonly TEST_PACKAGES=(openssl git python3-numpy "${BENCH_DENSE_PACKAGES[@]}"
  "${BENCH_CLUSTER_PACKAGES[@]}")
# Pages in a real browser, completion in real shells; the quick tests do without.
readonly PAGE_PACKAGES=(chromium zsh fish)
# Of an engine that ./run compose or ./run chart starts.
readonly ENGINE_PACKAGES=(docker.io debootstrap iptables iproute2 util-linux openssl)
# Of the cluster that ./run kubernetes starts.
readonly KUBERNETES_PACKAGES=(runc containernetworking-plugins iptables iproute2 util-linux openssl
  e2fsprogs gcc binutils)
readonly HOST_PACKAGES=(debootstrap git util-linux)
