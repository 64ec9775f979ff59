#!/bin/sh
# Reports disk, memory, load, uptime and processors in at most 80 columns.
# Usage: report.sh [FOLDER], a folder to read instead of /proc.
# Needs only sh, awk, df, date and uname: procps is not on every machine.
export LC_ALL=C
proc=${1:-/proc}
here=${SKILL_DIR:-$(dirname "$0")}

system() {
  name=$(awk -F= '$1 == "PRETTY_NAME" { gsub(/"/, "", $2); print $2 }' /etc/os-release 2>/dev/null)
  echo "system $(uname -s) $(uname -r) $(uname -m)${name:+, $name}"
}

uptime_of() {
  awk '{
    minutes = int($1 / 60); hours = int(minutes / 60); days = int(hours / 24)
    if (days) printf "uptime %d d %d h\n", days, hours % 24
    else if (hours) printf "uptime %d h %d min\n", hours, minutes % 60
    else printf "uptime %d min\n", minutes
  }' "$proc/uptime" 2>/dev/null
}

processors() {
  awk -F '[ \t]*: ' '
    /^processor[ \t]*:/ { count++ }
    /^model name/ && model == "" { model = $2 }
    END { if (count) print "processors " count (model == "" ? "" : " x " model) }
  ' "$proc/cpuinfo" 2>/dev/null
}

load() {
  awk -v count="${1:-0}" '{
    printf "load %s %s %s (1, 5 and 15 minutes)", $1, $2, $3
    if (count) printf ", %.0f %% of %d processors", 100 * $2 / count, count
    print ""
    if (count && $2 > 1.5 * count) print "! more work is waiting than the processors can do"
  }' "$proc/loadavg" 2>/dev/null
}

memory() {
  awk '
    function gib(kib) { return sprintf("%.1f", kib / 1048576) }
    { value[$1] = $2 }
    END {
      total = value["MemTotal:"]
      if (!total) exit
      available = ("MemAvailable:" in value) ? value["MemAvailable:"] : value["MemFree:"] + value["Cached:"]
      printf "memory %s of %s GiB used (%.0f %%), %s GiB available\n", \
        gib(total - available), gib(total), 100 * (total - available) / total, gib(available)
      if (available < total / 10) print "! less than a tenth of the memory is available"
      swap = value["SwapTotal:"]
      if (!swap) { print "swap none"; exit }
      used = swap - value["SwapFree:"]
      printf "swap %s of %s GiB used (%.0f %%)\n", gib(used), gib(swap), 100 * used / swap
      if (used > swap / 2) print "! more than half of the swap is used"
    }
  ' "$proc/meminfo" 2>/dev/null
}

# Prints one line for each file system: that of the skills, and that of the workspace if it is different.
disk() {
  for folder in "$here" /workspace; do
    [ -d "$folder" ] && df -Pk "$folder" 2>/dev/null | tail -n 1
  done | awk '
    function gib(kib) { return sprintf("%.1f", kib / 1048576) }
    $2 > 0 && !seen[$1 " " $2]++ {
      share = 100 * $3 / ($3 + $4 > 0 ? $3 + $4 : 1)
      printf "disk %s of %s GiB used (%.0f %%), %s GiB free, on %s\n", gib($3), gib($2), share, gib($4), $1
      if (share >= 90) print "! the disk " $1 " is nearly full"
    }
  '
}

cores=$(processors)
{
  date -u '+time %Y-%m-%d %H:%M UTC'
  system
  uptime_of | grep . || echo "uptime unknown"
  echo "${cores:-processors unknown}"
  load "$(echo "$cores" | awk '{ print $2 }')" | grep . || echo "load unknown"
  memory | grep . || printf 'memory unknown\nswap unknown\n'
  disk | grep . || echo "disk unknown"
} | awk '
  /^!/ { notes = notes substr($0, 1, 80) "\n"; next }
  {
    if (/ unknown$/) what = "that is known "
    label = toupper(substr($1, 1, 1)) substr($1, 2)
    print substr(sprintf("%-12s%s", label, substr($0, length($1) + 2)), 1, 80)
  }
  END { printf "\n%s", notes == "" ? "Nothing " what "needs attention.\n" : notes }
'
