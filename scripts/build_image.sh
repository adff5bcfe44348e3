#!/usr/bin/env bash
# Build both images without a container registry: a Debian base by mmdebstrap, then Containerfile by buildah.
#
#   scripts/build_image.sh [STORE]    STORE: the model store whose artifacts are packed, default $BENTOML_HOME or ~/bentoml
#
# Needs root, and the Debian packages mmdebstrap, buildah and podman. Makes localhost/debian-python:3.11 (once),
# localhost/pressroom:0.1.0 and localhost/pressroom-artifacts:0.1.0, and prints their sizes. Where a registry can be reached,
# `podman build` with Containerfile's own base does the same.
set -euo pipefail
cd "$(dirname "$0")/.."
store=${1:-${BENTOML_HOME:-$HOME/bentoml}}
version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' services/core/version.py)
base=localhost/debian-python:3.11

# A machine's own settings of apt and pip are lent to the build, not put into an image: mirrors, certificates, wheels.
lent=()
for path in /etc/pip.conf /etc/xdg/pip /etc/ssl/certs /etc/apt /opt/wheels /opt/pypi /opt/pypi-more; do
    [ -e "$path" ] && lent+=(--volume "$path:$path:ro")
done
for name in PIP_CERT PIP_FIND_LINKS PIP_INDEX_URL PIP_EXTRA_INDEX_URL http_proxy https_proxy no_proxy; do
    [ -n "${!name:-}" ] && lent+=(--env "$name=${!name}")
done

if ! buildah inspect "$base" >/dev/null 2>&1; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    unread=() # man pages and translations; licences stay: /usr/share/doc/*/copyright
    for folder in man locale doc; do unread+=("--dpkgopt=path-exclude=/usr/share/$folder/*"); done
    mmdebstrap --quiet --variant=minbase --include=python3,ca-certificates,libstdc++6,media-types \
        "${unread[@]}" --dpkgopt='path-include=/usr/share/doc/*/copyright' bookworm "$root/base.tar"
    podman import --quiet "$root/base.tar" "$base"
fi

buildah build --quiet --isolation chroot --network host --layers "${lent[@]}" --build-arg "BASE=$base" \
    --tag "localhost/pressroom:$version" .
buildah build --quiet --isolation chroot --network host --file Containerfile.artifacts \
    --build-arg "SERVER=localhost/pressroom:$version" --tag "localhost/pressroom-artifacts:$version" "$store/models"
podman images --format '{{.Repository}}:{{.Tag}} {{.Size}}' | grep pressroom
