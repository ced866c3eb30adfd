#!/bin/sh
# Creates the files for kustomization.yaml, next to it: a CA for these two programs only, a certificate for the extender, and
# one for the kube-scheduler that calls it. If run again, it renews the certificates with the same CA. Keep ca.key out of
# the cluster: it permits having pods bound. NAMESPACE is where both are installed (kube-system).
set -eu
cd "$(dirname "$0")"
umask 077

if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -days 3650 \
    -subj /CN=dra-extender-ca -addext keyUsage=critical,keyCertSign,cRLSign
fi

issue() { # name, subject, extensions
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$2"
  printf '%s\n' "$3" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$1.crt" -days 365 -extfile "$1.ext"
  rm "$1.csr" "$1.ext"
}

issue extender dra-extender "subjectAltName=DNS:dra-extender.${NAMESPACE:-kube-system}.svc
extendedKeyUsage=serverAuth"
issue kube-scheduler dra-kube-scheduler "extendedKeyUsage=clientAuth"
