/** Whose installers are known: hosts that serve nobody else's files. */
const HOSTS = new Set(
  "rustwasm.github.io taskfile.dev get.k0s.sh get.symfony.com php.new install.perlbrew.pl cpanmin.us nim-lang.org fvm.app get.lando.dev ddev.com goreleaser.com dokku.com setup.runtipi.io install.yunohost.org get.ispconfig.org software.virtualmin.com pkgx.sh buf.build opam.ocaml.org windsurf.com warp.dev install.sourcegraph.com get.devspace.sh talos.dev gleam.run vlang.io get.pulumi.com carapace.sh get.comfy.org uv.astral.sh r-lib.github.io rig.r-pkg.org aider.chat artifacts.elastic.co binaries.cockroachdb.com cli.moonrepo.dev cli.runpod.net clawd.bot depot.dev developer.fermyon.com dl.typesense.org download.daytona.io download.newrelic.com downloads.mariadb.com dprint.dev elixir-install.org get.dgraph.io get.jetpack.io get.nats.io get.webinstall.dev hf.co inference.sh install.datadoghq.com install.meilisearch.com install.surrealdb.com kind.sigs.k8s.io kiro.dev openclaw.ai packages.redis.io pkg.cloudflare.com pkgs.tailscale.com plandex.ai repos.influxdata.com scala-cli.virtuslab.org sh.edgedb.com sst.dev www.geldata.com ampcode.com antigravity.google app.factory.ai aptos.dev artifacts-cli.infisical.com astral.sh awscli.amazonaws.com bootstrap.pypa.io bun.com bun.sh chocolatey.org cli.doppler.com cli.github.com community.chocolatey.org cursor.com deb.nodesource.com dl.dagger.io dl.k8s.io dot.net download.docker.com elm-lang.org encore.dev fluxcd.io fly.io fnm.vercel.app foundry.paradigm.xyz get-ghcup.haskell.org get.arkade.dev get.docker.com get.haskellstack.org get.helm.sh get.jetify.com get.k3s.io get.modular.com get.pnpm.io get.rke2.io get.scoop.sh get.sdkman.io get.volta.sh install.determinate.systems install.meteor.com install.pi-hole.net install.python-poetry.org istio.io mise.run nixos.org ollama.com opencode.ai packages.cloud.google.com packages.microsoft.com pixi.sh pyenv.run releases.hashicorp.com repo.anaconda.com rpm.nodesource.com run.linkerd.io sdk.cloud.google.com sentry.io sh.rustup.rs starship.rs tailscale.com volta.sh zed.dev aws-amplify.github.io cdn.coollabs.io cdn.teleport.dev cli-assets.heroku.com cli.coderabbit.ai cli.upbound.io clickhouse.com coder.com code-server.dev crystal-lang.org direnv.net dl.cloudsmith.io dokploy.com download.clojure.org download.swift.org get.acme.sh get.casaos.io get.cloudron.io get.garden.io get.k3sup.dev get.netdata.cloud get.okteto.com get.opentofu.org get.pulumi.com get.rvm.io get.trunk.io get.tur.so get.wasmer.io getcomposer.org getmic.ro goteleport.com install.duckdb.org install.julialang.org install.zerotier.com just.systems lambdalabs.com lmstudio.ai micro.mamba.pm mise.jdx.dev moonrepo.dev my-netdata.io neon.tech ohmyposh.dev pdm-project.org pkgs.netbird.io railway.app railway.com rclone.org release.anza.xyz release.solana.com repo.continuum.io risczero.com rtx.pub rye.astral.sh setup.atuin.sh sh.jbang.dev sh.vector.dev sp1.succinct.xyz static.snyk.io temporal.download umbrel.sh wasmtime.dev webi.sh webinstall.dev".split(
    " ",
  ),
);
/** And places of theirs on hosts that serve anybody's. */
const PLACES = [
  ..."rustwasm leanprover terraform-linters kubescape metalbear-co dokku virtualmin AdguardTeam angristan Nyr trufflesecurity gitleaks coursier derailed wagoodman eza-community BurntSushi tmux-plugins romkatv ahmetb bats-core block charmbracelet dotnet fluent fullstorydev jdx kubernetes-sigs nektos neovim nushell pre-commit sharkdp starship termux zsh-users Homebrew anchore anthropics aquasecurity argoproj asdf-vm astral-sh cli denoland docker fluxcd golangci google hashicorp helm k3d-io kubernetes microsoft nodejs nvm-sh ohmyzsh openai oven-sh pnpm pyenv rapid7 rbenv render-oss vercel ajeetdsouza babashka cargo-bins conda-forge devcontainers getsentry github grafana infracost jesseduffield junegunn noir-lang ocaml prometheus rancher rust-lang supabase tilt-dev unslothai"
    .split(" ")
    .map((owner) => `raw.githubusercontent.com/${owner}/`),
  ...["claude.ai/install", "deno.land/install", "gitlab.com/gitlab-org/"],
];

/** Whether all that is fetched here comes from those. */
export function isOfVendor(text: string): boolean {
  const addresses: string[] = text.match(/\bhttps?:\/\/[^\s"'`)|;<>]{1,300}/g) ?? [];
  if (addresses.length > 0) return addresses.every(isVendor);
  const [, bare] =
    /\b(?:irm|iwr|curl|wget)\s{1,3}(?:-\S{1,20}\s{1,3}){0,4}((?:[\w-]{1,60}\.){1,4}[a-z]{2,10}\/\S{0,200})/i.exec(
      text,
    ) ?? [];
  return bare !== undefined && isVendor(`https://${bare}`);
}

export function isVendor(address: string): boolean {
  const [, host = ""] = /^https:\/\/([\w.-]{1,100})(?=[/?#]|$)/.exec(address) ?? [];
  return HOSTS.has(host) || PLACES.some((place) => address.startsWith(`https://${place}`));
}
