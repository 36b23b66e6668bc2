# After README.md's commands: what root tries with an installed cox. Each step is a separate bash, started in the home.

#: a program that uses cox_umt.h, right after the installation
cat >uses.c <<'END'
#include <cox_umt.h>
int main(void) { return cox_umt_backend() == 0; }
END
gcc uses.c $(pkg-config --cflags --libs cox-umt) -o uses
./uses
cox run -- ./uses 2>report
has_threads report

#: what make install leaves to do
apt-get -qq update
apt-get -qq install -y --no-install-recommends libcap2-bin >/dev/null
cd coxswain
make install | tee installed
if grep 'left to do' installed; then fail "there is still something left to do"; fi

#: programs that other steps use
apt-get -qq install -y --no-install-recommends bash-completion fish man-db procps python3 zsh >/dev/null
# Copies the workloads for users who cannot read /root.
mkdir -p /usr/local/share/walk
cp -r coxswain/target/workloads /usr/local/share/walk

#: cox doctor: eBPF works
cox --version
cox doctor
cox doctor --json - >doctor.json
json doctor.json 'd'

#: cox run on programs of Debian
try() {
    local code=0
    "$@" >plain.out 2>plain.err || code=$?
    expect "$code" cox run --output report -- "$@" >cox.out 2>cox.err
    cmp plain.out cox.out
    has_threads report
}
try ls -lR /usr/share/doc
try sha256sum /usr/lib/gcc/x86_64-linux-gnu/12/cc1
try tar -cf /dev/null /usr/share/doc
try gzip -c /bin/bash
try find /usr/lib -name '*.so*'
try sort --parallel=2 -R --random-source=/bin/bash /usr/share/perl/5.36/unicore/UnicodeData.txt -o /dev/null
try bash -c 'for i in 1 2 3; do /bin/true; done; ls / | wc -l'
try perl -e 'print $_ ** 2, "\n" for 1 .. 1000'
try python3 -c 'import threading; t = threading.Thread(target=sum, args=(range(10**6),)); t.start(); t.join()'
try git -C coxswain log --oneline
try dpkg -l
try gcc --version
try ls /nowhere
try make -C coxswain/workloads -n

#: cox run, pack and --overlap on programs with threads
apt-get -qq install -y --no-install-recommends graphicsmagick openssl pigz sysbench xz-utils zstd >/dev/null
tar -cf data /usr/share/perl
gm convert -size 600x600 plasma:red-blue picture.png
try() {
    local code=0
    "$@" >plain.out 2>plain.err || code=$?
    for how in run "run --overlap" "pack --ncpus 1" "run --pack-cpus 0"; do
        rm -f report
        case $how in
        pack*) expect "$code" cox $how -- "$@" >cox.out 2>report ;;
        *) expect "$code" cox $how --output report -- "$@" >cox.out 2>cox.err && has_threads report >/dev/null ;;
        esac
        grep -qE 'packed on|Thread time' report
        cmp plain.out cox.out
    done
}
try pigz -p 3 -c data
try xz -T3 -0 -c data
try zstd -T3 -q -c data
try gm convert picture.png -blur 0x3 -rotate 10 ppm:-
try bash -c 'sysbench --threads=3 --events=300 --time=0 cpu run >/dev/null'
try bash -c 'sysbench --threads=3 --time=1 mutex run >/dev/null'

#: exit codes are the program's, or say what went wrong
expect 3 cox run -- sh -c 'exit 3' 2>report
has_threads report
expect 137 cox run -- sh -c 'kill -9 $$' 2>report
says report SIGKILL
expect 127 cox run -- no-such-program 2>report
says report 'no-such-program'
expect 126 cox run -- /etc/passwd 2>report
expect 126 cox run -- /tmp 2>report
expect 125 cox run --no-such-option -- true 2>report
expect 125 cox run --html /no/such/folder/page.html -- touch started 2>report
says report '/no/such/folder'
[ ! -e started ] || fail "the program was started"

#: cox explain: every page
cox explain >index
pages=0
for page in $(awk '/^  [a-z_]+ /{ print $1 }' index); do
    cox explain "$page" >page
    [ "$(wc -l <page)" -gt 5 ] || fail "$page"
    pages=$((pages + 1))
done
echo "$pages pages"
[ "$pages" -gt 30 ] || fail "$pages pages"
expect 125 cox explain no-such-page 2>report
says report 'unknown topic'

#: man pages
for page in cox cox-run cox-pack cox-report cox-doctor; do
    MANWIDTH=80 man --warnings "$page" >page 2>errors
    [ "$(wc -l <page)" -gt 20 ] || fail "man $page"
    [ ! -s errors ] || { cat errors; fail "man $page warns"; }
done
MANWIDTH=80 man 3 cox_umt | grep -q cox_umt

#: completions of three shells
cat >complete.bash <<'END'
source /usr/share/bash-completion/bash_completion
_completion_loader cox
COMP_WORDS=(cox ru) COMP_CWORD=1 COMP_LINE="cox ru" COMP_POINT=6
$(complete -p cox | sed 's/.*-F \([^ ]*\).*/\1/') cox ru cox
echo "${COMPREPLY[@]}"
END
bash complete.bash | grep -w run
# As on a desktop: without this variable fish searches below /usr/share only.
XDG_DATA_DIRS=/usr/local/share:/usr/share fish -c 'complete -C "cox ru"' | grep '^run\b'
zsh -n /usr/local/share/zsh/site-functions/_cox

#: pages and traces, and reports on them
mandelbrot="$workloads/mandelbrot --threads 3 --steps 4 --no-verify"
cox run --html run.html --json run.json --trace run.pftrace --paraver run --output report -- $mandelbrot
has_threads report
json run.json 'len(d["programs"][0]["processes"][0]["threads"]) == 3'
grep -q mandelbrot run.html
for file in run.html run.json run.pftrace run.prv run.pcf run.row; do [ -s "$file" ] || fail "$file is empty"; done
cox report run.pftrace >again
has_threads again
cox report --html again.html --json again.json run.pftrace >/dev/null
grep -q mandelbrot again.html
json again.json 'd["programs"][0]["processes"]'

#: cox pack, and packing while observing
cox pack --ncpus 1 -- $workloads/barriers --threads 3 --work-us 200 --rounds 300 --wait spin 2>report
says report 'packed on CPUs?'
cox run --pack-cpus 0 -- $workloads/barriers --threads 3 --work-us 200 --rounds 300 --wait spin 2>report
has_threads report
cox changes status

#: cox run --overlap
cox run --overlap -- $workloads/heat --threads 2 2>report
has_threads report
says report '^ *overlap: '

#: a program that runs already
sh -c 'while :; do :; done' & busy=$!
expect 0 cox run --pid "$busy" --for 1s 2>report
kill "$busy"
has_threads report
expect 125 cox run --pid 999999 --for 1s 2>report

#: runs side by side, in series, and compared
cox run --also "$workloads/hog --seconds 1" -- $workloads/triad --seconds 1 2>report
has_threads report
cox run --repeat 3 --json a.%n.json -q -- sh -c 'exit 0'
cox run --repeat 3 --json b.%n.json -q -- sh -c 'sleep 0.2'
cox compare a=a.1.json,a.2.json,a.3.json b=b.1.json,b.2.json,b.3.json >comparison
says comparison 'wall'

#: schemas are JSON
for verb in run pack pack-simulate advise compare; do
    cox schema "$verb" >schema.json
    json schema.json '"properties" in d'
done

#: links in the installed guide lead somewhere
cd /usr/local/share/doc/coxswain
find . -name '*.md' | while read -r page; do
    { grep -oE '\]\([^)#: ]+' "$page" || true; } | sed 's/^](//; /^https$/d' | sort -u | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >/tmp/dead
cat /tmp/dead
[ ! -s /tmp/dead ] || fail "links that lead nowhere"

#: a full disk
mount -t tmpfs -o size=64k full /mnt
cox run --json /mnt/run.json --html /mnt/run.html --output report -- $workloads/mandelbrot --threads 3 --steps 1 --no-verify 2>errors
cat errors
has_threads report
dd if=/dev/zero of=/mnt/rest bs=4k 2>/dev/null || true
expect 0 cox run --json /mnt/run2.json -- true 2>errors
says errors 'No space left'
[ ! -e /mnt/run2.json ] || fail "an empty file was left"
expect 0 cox run --json /dev/full -- true 2>errors
says errors 'No space left'
