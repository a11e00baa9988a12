package roots

import (
	"path"
	"slices"
	"strings"

	"github.com/corebot/corebot/internal/rootfs"
)

// secretNames are files that hold keys or passwords by the custom of their programs.
var secretNames = []string{
	".env", ".envrc", ".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd",
	".git-credentials", ".terraformrc", ".vault-token", ".s3cfg", ".boto", ".dockercfg", "credentials",
	"credentials.json", "credentials.toml", "service-account.json", "secrets.json", "secrets.toml", "secrets.yaml",
	"secrets.yml", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk",
}

// secretEnds are the ends of such names.
var secretEnds = []string{
	".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".token", ".ppk", ".tfstate",
	".tfstate.backup",
}

// secretDirs hold nothing else.
var secretDirs = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store",
	".vault",
}

// examples are ends of names that say that the values in the file are none.
var examples = []string{".example", ".sample", ".template", ".dist"}

// Secret says whether a path, by a name in it, holds keys or passwords. Only names tell: a secret in a file of another
// name is not found.
func Secret(clean string) bool {
	names := strings.Split(rootfs.Fold(clean), "/")
	for _, name := range names {
		if slices.Contains(secretDirs, name) {
			return true
		}
	}
	base := names[len(names)-1]
	endsWith := func(end string) bool { return strings.HasSuffix(base, end) }
	switch {
	case slices.ContainsFunc(examples, endsWith):
		return false
	case slices.Contains(secretNames, base), slices.ContainsFunc(secretEnds, endsWith):
		return true
	case strings.HasPrefix(base, ".env."):
		return true
	}
	dir := path.Base(path.Dir(strings.Join(names, "/")))
	return versioned(dir) && (base == "config" || base == "hgrc")
}

// Versioned says whether a path belongs to a version control system: its history, its settings, and hooks that run as
// the person who works there.
func Versioned(clean string) bool {
	return slices.ContainsFunc(strings.Split(rootfs.Fold(clean), "/"), versioned)
}

func versioned(name string) bool {
	return name == ".hg" || name == ".svn" || name == ".jj" || name == ".bzr" || strings.HasSuffix(name, ".git")
}
