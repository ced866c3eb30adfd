#!/bin/sh
# Makes the files that kustomization.yaml wants, beside it: an authority for these two programs alone, a certificate for
# the extender, and one for the kube-scheduler that asks it. Again, it renews the certificates under the same authority;
# whoever has ca.key can have pods bound, so keep it away from the cluster.
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

issue extender dra-extender "subjectAltName=DNS:dra-extender.kube-system.svc
extendedKeyUsage=serverAuth"
issue kube-scheduler dra-kube-scheduler "extendedKeyUsage=clientAuth"
