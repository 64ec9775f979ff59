import { findFirstMatch, type ScanSignal, splitKeywords } from "../rule.ts";
import type { SourceText } from "../source-text.ts";
import {
  DROP_HOST,
  FETCHES_DATA,
  FILE_HOST,
  findNumericHost,
  findUnknownHost,
  isOutsideHost,
  isUnnamedClient,
  NETWORK_WORDS,
  SEND_WORDS,
  SENDS_DATA,
} from "./host-reputation.ts";

/** Hosts of Go modules. */
const GO_HOSTS = /^(?:golang\.org|go\.\w{2,20}\.\w{2,6}|gopkg\.in|k8s\.io|sigs\.k8s\.io|google\.golang\.org)$/;
const DECODE_WORDS = splitKeywords(
  `base64,b64decode,atob(,buffer.from,fromhex,unhexlify,xxd -r,rot13,codecs,tr ',tr ",zlib,marshal,chr,charcode,[::-1],\\x,frombase64,gunzip,openssl enc,'hex',"hex",rev |,| rev`,
);
const DECODES_TEXT = findFirstMatch(
  /base64\s(?:-d|-D|--decode)\b|\bb(?:16|32|64|85)decode\b|frombase64|\batob\(|Buffer\.from\([^\n]{0,400}?["'](?:base64|hex)["']|fromhex\(|unhexlify\(|\bxxd\s(?:-\w\s){0,2}-r|\brot_?13\b|codecs\.decode\(|\btr\s['"](?:a-z|A-Z|n-z|N-Z)[^\n]{0,16}['"]\s['"](?:n-z|N-Z|a-m)|zlib\.decompress\(|marshal\.loads\(|map\(chr|chr\(\s?(?:ord|int|\w{1,3}\s?\^)|fromCharCode|\[::-1\]|(?:\\x[0-9a-f]{2}){5}|(?:\\\\x[0-9a-f]{2}){5}|FromBase64String|openssl enc\b[^\n]{0,40}-d\b|\|\s?rev\b/i,
);

/** A text that only runs if the user enabled it. */
const OPTED_IN =
  /\bDO_NOT_TRACK\b|\b(?:telemetry|analytics|tracking)\w{0,10}\s?={2,3}\s?(?:true|["'](?:on|yes))|\bopt(?:ed)?[-_]?in\b/i;

function unlessOptedIn(pattern: RegExp): ScanSignal["find"] {
  const find = findFirstMatch(pattern);
  return (text, { page, line }) => {
    const found = find(text);
    return found && page.lines.slice(Math.max(0, line - 2), line + 1).some((near) => OPTED_IN.test(near.slice(0, 400)))
      ? undefined
      : found;
  };
}

/** Weak signals in code. */
export const NEARBY_CODE_SIGNALS: readonly ScanSignal[] = [
  { kind: "unknown-host", words: NETWORK_WORDS, where: "code", find: findUnknownHost },
  {
    kind: "sends-unknown",
    words: [...NETWORK_WORDS],
    where: "code",
    find: (text) => (findUnknownHost(text) ? findFirstMatch(SENDS_DATA)(text) : undefined),
  },
  {
    kind: "unnamed-client",
    words: SEND_WORDS,
    where: "code",
    find: (text, { page }) => (isUnnamedClient(page) ? findFirstMatch(SENDS_DATA)(text) : undefined),
  },
  {
    kind: "sending",
    words: SEND_WORDS,
    where: "code",
    find: findFirstMatch(SENDS_DATA),
  },
  {
    kind: "fetching",
    words: splitKeywords(
      "curl,wget,urlopen,urlretrieve,requests.get,httpx.get,fetch(,http.get,https.get,axios,uri.open,net::http,irm ,iwr ,invoke-,downloadstring,downloadfile,lwp,reqwest,file_get_contents,git clone,aria2c,bitsadmin,certutil,).get(",
    ),
    where: "code",
    find: findFirstMatch(FETCHES_DATA),
  },
  {
    kind: "numeric-address",
    words: splitKeywords("http:,https:,ftp:,ws:,wss:,tcp:,/dev/tcp,/dev/udp,nc ,ncat ,netcat,telnet"),
    find: findNumericHost,
  },
  {
    kind: "file-host",
    words: splitKeywords(
      "rentry,glot.io,paste,0x0.st,transfer.sh,termbin,ix.io,ghostbin,telegra.ph,t.me/,mega.nz,mediafire,gofile,anonfile,bashupload,file.io,catbox,we.tl,wetransfer,discordapp,controlc,privatebin,pixeldrain,workupload,sendspace,tmpfiles,oshi.at,temp.sh,uguu.se,sprunge,clbin,filebin,pst.moe,bpa.st,cl1p,textbin,snippet.host",
    ),
    find: findFirstMatch(FILE_HOST),
  },
  {
    kind: "drop-host",
    words: splitKeywords(
      "webhook,pipedream,requestbin,requestcatcher,requestrepo,beeceptor,hookbin,interact,oast,burpcollab,dnslog,dnsbin,ceye.io,canarytoken,ngrok,trycloudflare,serveo,loca.lt,localtunnel,api.telegram,hooks.slack,script.google",
    ),
    find: findFirstMatch(DROP_HOST),
  },
  {
    kind: "identity",
    words: splitKeywords(
      "hostname,uname,whoami,$(id),ip addr,ip a,ifconfig,machine-id,platform.node,getuser,userinfo,computername,ipify,$user,getlogin,systeminfo,sw_vers,lsb_release,; id,username",
    ),
    where: "code",
    find: findFirstMatch(
      /\bhostname\b|\buname\s-\w{0,3}[an]|\bos\.uname\(|\bwhoami\b|\$\(id\)|[;(]\s?id\s?[;)|]|\bip a(?:ddr)?\b|\bifconfig\b|machine-id|platform\.node|getpass\.getuser|os\.(?:hostname|userInfo|Hostname)\(|gethostname|COMPUTERNAME|ifconfig\.me|\bipify\b|\$USER\b|\$env:USERNAME|os\.getlogin|\bsysteminfo\b/,
    ),
  },
  {
    kind: "env-dump",
    words: splitKeywords("env,getenv"),
    where: "code",
    find: findFirstMatch(
      /(?:^|[\s;&|("'`])(?:env|printenv|export -p)\s{0,2}(?:\||>|$|`|\))|os\.environ\.(?:items|copy)\(|dict\(\s?os\.environ|\bin os\.environ(?:\.items\(\))?(?=[\s:\])}]|$)|json\.dumps\([^)\n]{0,40}os\.environ\b(?![[.])|os\.Environ\(\)|(?<!\}\s?=\s?)process\.env\s?[,)};]|\.\.\.process\.env|Object\.(?:entries|keys|values)\(process\.env|(?:gci|dir|Get-ChildItem) env:|\bENV\.(?:to_h|each|select|map|to_a)|env::vars\(|\bSystem\.getenv\(\)|\bgetenv\(\)/i,
    ),
  },
  {
    kind: "key-file",
    words: splitKeywords(
      "document.cookie,.ssh,id_rsa,id_ed25519,id_ecdsa,.aws,.gnupg,.kube,.netrc,git-credentials,.npmrc,.pypirc,.docker,hosts.yml,/passwd,/shadow,login data,cookies,key4.db,logins.json,local state,wallet,keystore,.env,_history,.git/config,keychain,generic-password,get secret,gh secret,user/keys,auth token,config view,chat.db,browser_cookie3,solana,user data,leveldb,application support,.mozilla,.config/,getallcookies,security-credentials,/environ,shell history,electrum,openclaw,clawdbot,.claude,.codex",
    ),
    where: "code",
    find: findFirstMatch(
      /\bdocument\.cookie\b|\.ssh\b(?!["']?\/(?:config\b|[\w*]{1,30}\.pub\b))|\bid_(?:rsa|ed25519|ecdsa)\b(?!\.pub)|\.aws\b|\.gnupg\b|\.kube\b|\.netrc\b|\.git-credentials\b|\.npmrc\b|\.pypirc\b|\.docker\/config|gh\/hosts\.yml|\/etc\/(?:passwd|shadow)\b|\bLogin Data\b|["'\\/]Cookies\b|\bkey4\.db\b|\blogins\.json\b|\bLocal State\b|\bwallet\.dat\b|\bkeystore\b|["']\.env["']|\b(?:cat|head|less|base64|gzip|type|Get-Content)\s(?:-\w{1,3}\s)?["']?[\w./~*-]{0,40}\.env\b|@\.env\b|<\s?\.env\b|\b(?:bash|zsh)_history\b|\.git\/config\b|\bdump-keychain\b|\bUser Data\b|\bleveldb\b|Application Support\/(?:Google|Firefox|BraveSoftware|Exodus|Ledger)|\.mozilla\b|\.config\/(?:google-chrome|chromium|BraveSoftware)|getAllCookies|iam\/security-credentials|\/proc\/(?:self|\d+)\/environ|\bshell history\b|find-(?:generic|internet)-password|\bget secrets?\b|\bgh secret\b|\buser\/keys\b|\bauth token\b|config view --raw|\bchat\.db\b|browser_cookie3|\.config\/solana|\.electrum\b|\.(?:openclaw|clawdbot)\/(?:\.env|credentials|openclaw\.json)|\.claude\/\.credentials|\.codex\/auth/,
    ),
  },
  {
    kind: "decoding",
    words: DECODE_WORDS,
    where: "code",
    find: DECODES_TEXT,
  },
  {
    kind: "script-decoding",
    words: DECODE_WORDS,
    where: "code",
    find: (text, { page }) => (page.kind === "code" ? DECODES_TEXT(text) : undefined),
  },
  {
    kind: "runs-text",
    words: splitKeywords(
      "eval,exec,function(,vm.,runin,scriptblock,iex,invoke-expression,child_proc,os.system,popen,| sh,|sh,| bash,|bash,| zsh,| python,| node,sh -c,source <, . /,&. /,__import__,runpy,import_module,dofile,loadfile,sys.path,shell_exec,__builtins__,startfile,cess.start,system(,loads(,shell=true,| $,$z",
    ),
    where: "code",
    find: findFirstMatch(
      /\beval\b|(?<![.\w])exec\(|\brunpy\.|\bimport_module\(|\bdofile\(|\bloadfile\(|sys\.path\.(?:insert|append)\(|\bFunction\(\w|shell_exec\(|\bnew Function\(|\bvm\.run|runIn(?:This|New)Context|(?:instance|class|module)_eval|scriptblock\]|\biex\b|Invoke-Expression|\bos\.system\(|\bsubprocess\.\w{3,12}\(\s?\w{1,30}\s?,[^)\n]{0,60}shell\s?=\s?True|\|\s?(?:sudo\s)?(?:ba|z|da)?sh\b|\|\s?(?:python3?|node|perl|ruby)\b(?!\s-m)|source\s<\(|(?:^|[;&]\s?)\.\s\/|getattr\(\s?__builtins__|__builtins__\[|os\.startfile\(|Process\.Start\(|marshal\.loads\(|\|\s?["']?\$[\w({]|exec\(_/,
    ),
  },
  {
    kind: "from-pieces",
    words: splitKeywords(`" + ",' + ',"+",'+',$,globals(,vars(,require(," & ",""&,& ""`),
    where: "code",
    find: findFirstMatch(
      /\[?["']\w{1,6}["']\s?\+\s?["']\w{1,6}["']\)?\]?\)?\(|(?:^|[\s;&|(])\$\{?\w{1,2}\}?\$\{?\w{1,2}\}?(?=\s-|\$|\s["']?https?:)|(?:^|[\s;&|(])["']?\$\{?\w{1,20}\}?["']?\s-\w{1,6}\s["']?https?:|\w["']{1,2}\s?&\s?["']{1,2}\w{1,4}\(|globals\(\)\[|require\(\w{1,20}\[\d\]\)|\[\w{1,20}\[\d\]\]\(|getattr\(\w{1,20},\s?["']\w{1,12}["']\s?\+/,
    ),
  },
  {
    kind: "background",
    words: splitKeywords(
      "nohup,disown,setsid,new_session,detached,unref,windowstyle,/dev/null,devnull,ignore,catch,except,daemon,&,-w hidden,never",
    ),
    where: "code",
    find: unlessOptedIn(
      /\bnohup\b|\bdisown\b|\bsetsid\b|start_new_session|detached:\s?true|\.unref\(|WindowStyle\W{1,3}Hidden|\s-w\shidden\b|>\s?\/dev\/null 2>&1|&>\s?\/dev\/null|\bDEVNULL\b|stdio["']?:\s?["']ignore|catch\(\s?\(\)\s?=>|except[^:\n]{0,20}:\s?pass\b|catch\s?\{\s?\}|--daemon\b|daemon\s?=\s?True|[^&\s]\s?&\s{0,2}$|"reveal":\s?"never"/,
    ),
  },
  {
    kind: "hidden-place",
    words: splitKeywords("/tmp/.,/dev/shm,.cache/,env:temp,%temp%,/var/tmp/.,appdata,.local/share/."),
    where: "code",
    find: findFirstMatch(
      /\/(?:var\/)?tmp\/\.\w|\/dev\/shm\/|~\/\.cache\/[\w-]{1,30}\/[\w.-]{1,30}|\$env:TEMP|%TEMP%|%APPDATA%(?!\\(?:Claude|Code|Cursor|npm|Python|Windsurf)\b)|\/\.local\/share\/\.\w/i,
    ),
  },
  {
    kind: "runnable",
    words: splitKeywords("chmod,s_iexec,0o7,mode: 07,quarantine,s_irwx"),
    find: findFirstMatch(
      /\bchmod\s(?:-\w\s)?(?:[ugoa]{0,3}\+\w{0,2}x|7\d\d|0?[4-7]755)\b|\bmode:\s?0o?7\d\d\b|S_IEXEC|S_IRWX|\bos\.chmod\(|chmodSync\(|xattr\s-\w{1,3}\b[^\n]{0,20}quarantine/,
    ),
  },
  {
    kind: "lasting",
    words: splitKeywords(
      "crontab,cron.d,launchagents,launchdaemons,launchctl,systemd/user,systemctl,currentversion,schtasks,scheduledtask,.bash,.zsh,.profile,git/hooks,hookspath,.pth,folderopen,authorized_keys,linger,runatload,sitecustomize,autostart,.vimrc,init.vim,init.lua,_aliases,tmux.conf,fsmonitor,sshcommand,credential.helper,at now,startup",
    ),
    find: findFirstMatch(
      /\bcrontab\b|\/etc\/cron|\.vimrc\b|init\.(?:vim|lua)\b|\.bash_aliases|\.tmux\.conf|core\.fsmonitor|core\.sshCommand|credential\.helper|\bat now \+|LaunchAgents|LaunchDaemons|\blaunchctl\b|systemd\/user|systemctl\s(?:--user\s)?enable|CurrentVersion\\{1,2}Run|\bschtasks\b|Register-ScheduledTask|>>\s?["']?(?:~|\$HOME|\$\{HOME\})?\/?\.(?:bash|zsh|z?profile)|\.git\/hooks|core\.hooksPath|["'\w-]\.pth\b|folderOpen|authorized_keys|enable-linger|RunAtLoad|sitecustomize|\.config\/autostart|Start Menu\\{1,2}Programs\\{1,2}Startup/,
    ),
  },
  {
    kind: "watching",
    words: splitKeywords(
      "pynput,keyboard,on_press,keylog,imagegrab,mss,screenshot,screencapture,copyfromscreen,videocapture,arecord,sounddevice,avfoundation,clipboard,pyperclip,pbpaste,getusermedia,uiohook,iohook",
    ),
    where: "code",
    find: findFirstMatch(
      /\bpynput\b|keyboard\.(?:Listener|hook|on_press)|\bon_press\b|keylog|ImageGrab|\bmss\.mss\(|pyautogui\.screenshot|\bscreencapture\b|CopyFromScreen|VideoCapture\(|\barecord\b|sounddevice|avfoundation|Get-Clipboard|pyperclip\.paste|\bpbpaste\b|getUserMedia|uiohook|iohook/i,
    ),
  },
  {
    kind: "guard-off",
    words: splitKeywords(
      "smartscreen,run anyway,open anyway,gatekeeper,quarantine,spctl,antivirus,virus scanner,defender,real-time,realtime,exclusionpath,setenforce,ufw disable,iptables -f,verifysignature,bypass,csrutil,/protection,firewall,amsi,ca-certificates,ca-trust,trusted-cert,addstore,tls_reject,gonosum,goinsecure,write-all,pull_request_target,codeql,secret-scan,dependency-review,semgrep,snyk,trivy,security job,security check,security scan,auditd,sslverify,strict-ssl",
    ),
    find: findFirstMatch(
      /\bspctl\s--(?:master|global)-disable|\b(?:disabl\w{1,3}|turn(?:ed|ing)? off|switch(?:ed|ing)? off|paus\w{1,3}|stop\w{0,4}|deactivat\w{1,3})\s[^.\n]{0,30}?(?:antivirus|virus scanner|defender|real-?time protection)|DisableRealtimeMonitoring|ExclusionPath|\bsetenforce 0|\bufw disable|\biptables -F|--no-quarantine|verifySignature["']?:\s?false|\bcsrutil disable|amsiInitFailed|\bupdate-ca-(?:certificates|trust)|add-trusted-cert|certutil\s-addstore|sslVerify[\s=]false|NODE_TLS_REJECT_UNAUTHORIZED\W{1,3}0|GONOSUM(?:DB|CHECK)|GOINSECURE|permissions:\s?write-all|pull_request_target|\b(?:remove|delete|disable|drop|skip)\b[^.\n]{0,30}?\b(?:codeql|secret-scan\w{0,3}|dependency-review|semgrep|snyk|trivy|security (?:jobs?|checks?|scans?))\b|AmsiUtils|\bbranches\/\S{1,40}\/protection\b/i,
    ),
  },
  {
    kind: "gated",
    words: splitKeywords(
      `ci",ci',github_actions,sys.modules,date.today,date.now,datetime,.dockerenv,cpus(),timezone,debugger,vbox,vmware,date +%`,
    ),
    where: "code",
    find: findFirstMatch(
      /environ\S{0,12}["'](?:CI|GITHUB_ACTIONS)["']|process\.env\.(?:CI|GITHUB_ACTIONS)\b|\bpytest\b.{0,12}sys\.modules|date\.today\(\)\s?[<>]|datetime\.(?:now|utcnow)\([^)]{0,20}\)\s?[<>]|Date\.now\(\)\s?[<>]|\.dockerenv|cpus\(\)\.length|getTimezoneOffset|isDebuggerPresent|\bVBOX\b|\[\s"?\$\(date \+%\w{1,4}\)"?\s-(?:gt|ge|eq)/,
    ),
  },
  {
    kind: "mining",
    words: splitKeywords(
      "stratum,xmrig,minerd,cpuminer,donate-level,max-threads, -u ,residential,exit node,ethminer,nbminer,t-rex",
    ),
    find: findFirstMatch(
      /\bstratum\+|\bxmrig(?:\s-|-\d|\.tar|\.zip|\/releases)|\bminerd\b|\bcpuminer\b|--donate-level|cpu-max-threads|\s-o\s\S{4,80}:\d{3,5}\s{1,3}-u\s\w|\bethminer\b|\bnbminer\b/i,
    ),
  },
  {
    kind: "name-lookup",
    words: splitKeywords("dig ,nslookup,host ,drill ,resolve-dnsname,gethostbyname,getaddrinfo,resolve,lookup("),
    where: "code",
    find: findFirstMatch(
      /\b(?:dig|nslookup|host|drill|Resolve-DnsName|ping)\b[^\n]{0,80}?["'\s]\$?[({]?[\w$({][^\s"']{0,60}[)}]?\.[\w-]{2,60}\.[a-z]{2,10}\b(?<=\$[^\n]{0,120})|(?:gethostbyname|getaddrinfo|resolve\w{0,6}|lookup)\([^)\n]{0,60}(?:\{|\+|\$|%s)/,
    ),
  },
  {
    kind: "text-record",
    words: splitKeywords("txt"),
    where: "code",
    find: findFirstMatch(
      /\b(?:dig|nslookup|drill|host)\b[^\n]{0,60}?\bTXT\b[^\n]{0,80}?[|)]|resolve\w{0,6}\([^)\n]{0,80}["']TXT["']|resolveTxt\(/i,
    ),
  },
  {
    kind: "package-address",
    words: splitKeywords(
      `install http,install git+http,i http,add http,add git+http,go run ,go install , => ,index-url,--registry,registry=,registry =,.tgz",.tar.gz",.git,.zip",git = ",source 'http,source "http,@ http,tap `,
    ),
    find: (text) => {
      const found = findFirstMatch(
        /\b(?:pip3?|uv(?: pip)?|npm|pnpm|yarn|bun|gem|cargo)\s(?:install|i|add)\s(?:-\S{1,30}\s){0,4}["']?(?:git\+)?https?:\/\/[^\s"'\x60]{4,200}|--(?:extra-)?index-url[ =]["']?https?:\/\/[^\s"'\x60]{4,120}|--registry[ =]["']?https?:\/\/[^\s"'\x60]{4,120}|^[\w.-]{1,60}(?:\[[\w,]{1,40}\])?\s@\s(?:git\+)?https?:\/\/\S{4,200}|\bbrew tap \S{1,60}\shttps?:\/\/\S{4,120}|"[\w@/.-]{1,80}"\s?:\s?"(?:git\+)?https?:\/\/[^"\s]{4,160}?(?:\.tgz|\.tar\.gz|\.git|\.zip)(?:#[\w.-]{1,60})?"|^\s{1,12}(?:git|url):\s{1,3}["']?https?:\/\/\S{4,120}?\.git\b|\bgit\s?=\s?"https?:\/\/[^"\s]{4,120}"|^\s{0,4}source\s["']https?:\/\/[^"'\s]{4,120}|^\s{0,4}(?:extra-)?index-url\s?=\s?https?:\/\/\S{4,120}|^\s{0,4}registry\s?=\s?https?:\/\/\S{4,120}/m,
      )(text);
      const replaced =
        /^\s{0,8}(?:replace\s)?[\w./-]{3,100}(?:\s\S{1,20})?\s=>\s((?:[\w-]{1,60}\.){1,4}[a-z]{2,12})\/\S{1,120}/m.exec(
          text,
        );
      if (replaced && isOutsideHost(replaced[1] ?? "") && !GO_HOSTS.test(replaced[1] ?? ""))
        return { index: replaced.index, length: replaced[0].length };
      return found && findUnknownHost(text.slice(found.index, found.index + found.length)) ? found : undefined;
    },
  },
  {
    kind: "shell-socket",
    words: splitKeywords(
      "/dev/tcp/,/dev/udp/,nc -,ncat -,pty.spawn,dup2,bash -i,sh -i,tcpclient,fsockopen,mkfifo,socat",
    ),
    find: findFirstMatch(
      /\b(?:ba)?sh\s-i\b[^\n]{0,80}?\|\s?(?:openssl s_client|nc|ncat|socat|telnet)\b|\b(?:ba)?sh\s-i\b[^\n]{0,40}?\/dev\/(?:tcp|udp)\/[\w.]{3,80}\/\d{2,5}|\bnc(?:at)?\s(?:-\w{1,6}\s){0,3}-(?:e|c)\s?\/bin|\bpty\.spawn\([^\n]{0,200}|\bos\.dup2\([^\n]{0,120}connect|\bmkfifo\b[^\n]{0,80}?\bnc\b|\bsocat\b[^\n]{0,80}?(?:exec:|SSH_AUTH_SOCK|docker\.sock)|\bfsockopen\([^\n]{0,80}exec\(|New-Object\s[\w.]{0,24}TCPClient\([^\n]{0,200}/i,
    ),
  },
  {
    kind: "grants-rights",
    words: splitKeywords(
      "administratoraccess,assumerole,assume-role,cluster-admin,hostpid,hostpath,privileged,nopasswd,roles/owner,docker.sock,-v /:,poweruseraccess,iamfullaccess,anydesk,teamviewer,rustdesk,unattended,tcp://0.0.0.0,--ip=0,--ip 0",
    ),
    find: findFirstMatch(
      /\bpolicy\/(?:AdministratorAccess|IAMFullAccess|PowerUserAccess)\b|"AWS":\s?"arn:aws:iam::\d{12}:(?:root|user)|\bclusterrolebinding\b[^\n]{0,80}?cluster-admin[^\n]{0,80}?(?:default:default|--group|--user)|"?hostPID"?\s?:\s?true[^\n]{0,300}?privileged|-v\s\/:\/\w{1,12}\b[^\n]{0,120}?(?:privileged|docker\.sock)|--privileged\b[^\n]{0,120}?-v\s\/:\/|\b(?:anydesk|rustdesk|teamviewer)\b[^\n]{0,60}?--(?:set-)?(?:password|passwd)|tcp:\/\/0\.0\.0\.0:237[56]|--ip[= ]0\.0\.0\.0[^\n]{0,80}?token[=\s]['"]{2}|\bunattended access\b[^\n]{0,40}?password/i,
    ),
  },
  {
    kind: "fixed-spender",
    words: splitKeywords("approve,0x,permit,spender,setapprovalforall"),
    find: (text, { page }) =>
      /\bapprove\(|setApprovalForAll\(|\bspender\b|increaseAllowance\(/.test(text) &&
      (/0x[0-9a-fA-F]{40}\b/.test(text) || hasFixedAddress(page)) &&
      /2\s?\*\*\s?256|MaxUint256|MAX_UINT|uint256\)?\.max|all tokens|true\)|no end date|type\(uint/i.test(text)
        ? findFirstMatch(/approve\(|setApprovalForAll\(|spender/)(text)
        : undefined,
  },
  {
    kind: "deletes-home",
    words: splitKeywords("rmsync,rmtree,rm -,fs.rm(,rimraf,remove-item,removeall"),
    where: "code",
    find: findFirstMatch(
      /\b(?:rmSync|rmtree|rimraf|RemoveAll|fs\.rm)\([^\n]{0,60}?(?:homedir\(\)|Path\.home\(\)|expanduser\(["']~\/?["']\)|UserHomeDir\(\))\s?(?:,\s?[a-z]\w{0,20}\s?\)|\)|\/\s?[a-z]\w{0,20}\))|\brm\s-\w{0,3}r\w{0,3}\s["']?(?:~|\$HOME|\$\{HOME\})\/?["']?(?:\*|\s|;|&|$)|Remove-Item\b[^\n]{0,60}?\$(?:HOME|env:USERPROFILE)\b["']?(?:\\\*|\s)/,
    ),
  },
];

const fixedAddressCache = new WeakMap<SourceText, boolean>();

function hasFixedAddress(page: SourceText): boolean {
  const known = fixedAddressCache.get(page);
  if (known !== undefined) return known;
  const is = page.lines.some((line) => /["'\s:=]0x[0-9a-fA-F]{40}\b/.test(line.slice(0, 1000)));
  fixedAddressCache.set(page, is);
  return is;
}
