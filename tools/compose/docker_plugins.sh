# Gets the docker client's compose 2 and buildx, which Debian 12 lacks. Sourced after packages.sh.
# shellcheck shell=bash

readonly PLUGIN_SUITE=trixie
readonly PLUGIN_MIRROR=http://deb.debian.org/debian
readonly PLUGIN_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

has_compose() { docker compose version --short 2>/dev/null | grep -q '^v\?[2-9]'; }
has_buildx() { docker buildx version >/dev/null 2>&1; }

# fetch_plugins DIR: unpacks both packages of PLUGIN_SUITE into DIR. apt works in folders of its own
# there, so that this machine's package lists stay what they are. Needs no root.
fetch_plugins() (
  mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/cli-plugins" && cd "$1" || exit
  printf 'deb [signed-by=%s] %s %s main\n' "$PLUGIN_KEYRING" "$PLUGIN_MIRROR" "$PLUGIN_SUITE" \
    >sources.list
  options=(-q -o "Dir::Etc::SourceList=$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache"
    -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Sandbox::User=root
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
  apt-get "${options[@]}" update </dev/null >&2 &&
    apt-get "${options[@]}" download docker-compose docker-buildx </dev/null >&2 || exit
  for package in *.deb; do dpkg -x "$package" root || exit; done
  cp root/usr/libexec/docker/cli-plugins/docker-{compose,buildx} cli-plugins/ &&
    rm -r lists cache root sources.list ./*.deb
)

# want_docker_plugins: where the client lacks one, both are kept in the cache, and DOCKER_CONFIG
# names their folder for this process and its children.
want_docker_plugins() {
  if has_compose && has_buildx; then return 0; fi
  local folder="$DSLIDE_CACHE_DIR/docker-$PLUGIN_SUITE"
  if [[ ! -e "$folder" ]]; then
    say "Fetching docker-compose and docker-buildx of Debian $PLUGIN_SUITE into $folder"
    rm -rf "$folder.part"
    if ! fetch_plugins "$folder.part"; then
      note 'could not fetch them (messages above)'
      return 0
    fi
    mv "$folder.part" "$folder"
  fi
  export DOCKER_CONFIG="$folder"
  has_compose || note "$folder: no docker compose that runs here"
}
