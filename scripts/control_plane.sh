#!/usr/bin/env bash
# A Kubernetes control plane and node for tests/k8s/test_cluster*.py, from Debian's packages: nothing is installed.
#
#   scripts/control_plane.sh [FOLDER]    where the programs are kept, default $PRESSROOM_CONTROL_PLANE or out/control-plane
#
# Kubernetes comes as Debian's source package (1.20.2) and is compiled with Debian's Go, 4 to 7 minutes on two cores; etcd,
# containerd and the CNI plugins come as Debian's binaries, unpacked into the folder. Needs bookworm, root, gcc, jq, make and
# dpkg-dev. What is there already is not made again.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-${PRESSROOM_CONTROL_PLANE:-out/control-plane}}")
programs="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy"
packages="golang-1.19-go golang-1.19-src rsync libpopt0 libxxhash0 etcd-server containerd containernetworking-plugins
          conntrack libnetfilter-conntrack3 libnfnetlink0 golang-github-modern-go-reflect2-dev"
work=$folder/build
tools=$folder/tools

[ -e "$folder/complete" ] && exit 0
mkdir -p "$folder/bin" "$tools" "$work/lists/partial" "$work/archives/partial"

# apt with lists and caches of its own: the machine's sources have no deb-src entry and are left alone.
key=/usr/share/keyrings/debian-archive-keyring.gpg
printf '%s [signed-by=%s] http://deb.debian.org/debian bookworm main\n' deb "$key" deb-src "$key" >"$work/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
        -o Dir::Cache="$work" -o APT::Sandbox::User=root "$@"
}

cd "$work"
apt update
if [ ! -x "$tools/usr/bin/etcd" ]; then
    apt download $packages
    for package in *.deb; do dpkg -x "$package" "$tools"; done
fi
if [ ! -d source ]; then
    apt source --download-only kubernetes
    dpkg-source --no-check -x kubernetes_*.dsc source >/dev/null
    # The vendored 1.0.1 walks maps as Go did before 1.18: with 1.19 the API server crashes after a while. This is 1.0.2.
    rm source/vendor/github.com/modern-go/reflect2/*.{go,s}
    cp "$tools"/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} source/vendor/github.com/modern-go/reflect2/
fi

missing=()
for program in $programs; do [ -x "$folder/bin/$program" ] || missing+=("cmd/$program"); done
if [ ${#missing[@]} -gt 0 ]; then
    cd source
    mkdir -p .go/src/k8s.io
    ln -sfn ../../.. .go/src/k8s.io/kubernetes # where its makefile looks for itself
    export GOROOT=$tools/usr/lib/go-1.19 GOPATH=$PWD/.go GOCACHE=$work/cache GOPROXY=off CGO_ENABLED=0 HOME=$work
    export PATH=$tools/usr/lib/go-1.19/bin:$tools/usr/bin:$PATH LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu
    export KUBE_GIT_VERSION=v1.20.2 KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=clean
    make WHAT="${missing[*]}"
    cp _output/bin/kube* "$folder/bin/"
fi

# What holds a pod's namespaces: Kubernetes' own program, as an image without anything else in it.
cc -Os -static -DVERSION=debian -o "$work/pause" "$work/source/build/pause/linux/pause.c"
tar --create --file "$folder/pause.tar" --directory "$work" pause

cd "$folder"
rm -rf "$work" "$tools/usr/lib/go-1.19" "$tools/usr/share"
touch complete
du -sh "$folder"
