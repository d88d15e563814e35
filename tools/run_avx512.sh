#!/usr/bin/env bash
# Runs a static x86-64 Linux program on an emulated processor with AVX-512, for machines without it:
#
#     tools/run_avx512.sh PROGRAM [ARGUMENT...]
#
# What the program prints comes out, and its exit status. Booting takes about a minute; the program then
# runs some hundred times slower than here. On Debian 12, as root:
#
#     apt-get install bochs bochsbios vgabios isolinux syslinux-common xorriso cpio gcc linux-image-cloud-amd64
#
# or set KERNEL to a bzImage for x86-64 that has a serial console and an initramfs built in.
set -euo pipefail
program=$(realpath "$1")
shift
limit=${LIMIT:-900}
kernel=${KERNEL:-$(find /boot -name 'vmlinuz-*cloud-amd64' 2>/dev/null | sort -V | tail -1)}
share=/usr/share/bochs
missing() { echo "run_avx512: $1 is missing; the head of $0 says what to install" >&2; exit 125; }
for tool in bochs xorriso cpio cc; do
    command -v $tool >/dev/null || missing $tool
done
for file in "$kernel" /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 $share/BIOS-bochs-latest; do
    [ -f "$file" ] || missing "${file:-a kernel}"
done
work=$(mktemp -d)
trap 'kill "${emulator:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$work/root/dev" "$work/iso"
cp "$program" "$work/root/program"
cp "$kernel" "$work/iso/kernel"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/iso"

# The guest's only process of its own: the program on the serial line, and its status after it.
{
    echo 'static char *const arguments[] = {"/program",'
    for argument in "$@"; do printf '"%s",' "$argument"; done
    echo '0};'
    cat <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int status = 0;
    mknod("/dev/ttyS0", S_IFCHR | 0600, makedev(4, 64));
    dup2(dup2(open("/dev/ttyS0", O_WRONLY | O_NOCTTY), 1), 2);
    dprintf(1, "\n[program]\n");
    if (fork() == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    wait(&status);
    dprintf(1, "\n[status %d]\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    for (;;) pause();
}
C
} >"$work/init.c"
cc -static -Os "$work/init.c" -o "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/iso/initrd"

# The emulator's compacted XSAVE areas are not the size that Linux computes, so they are left out.
cat >"$work/iso/isolinux.cfg" <<'CFG'
DEFAULT run
LABEL run
KERNEL /kernel
INITRD /initrd
APPEND console=ttyS0 quiet nosmp mitigations=off nokaslr tsc=unstable lpj=1000000 acpi=off pci=off clearcpuid=xsavec,xsaves,pku
CFG
xorriso -as mkisofs -quiet -o "$work/cd.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table "$work/iso" 2>/dev/null
cat >"$work/bochsrc" <<RC
megs: 512
cpu: model=corei7_skylake_x, count=1, ips=100000000
clock: sync=none, time0=utc
romimage: file=$share/BIOS-bochs-latest
vgaromimage: file=$share/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$work/cd.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
display_library: rfb, options="timeout=0"
log: $work/log
panic: action=fatal
error: action=ignore
info: action=ignore
RC
echo c >"$work/commands" # Debian's emulator waits for its debugger's "continue"
bochs -q -f "$work/bochsrc" -rc "$work/commands" >"$work/out" 2>&1 </dev/null &
emulator=$!
until grep -q '^\[status' "$work/serial" 2>/dev/null; do
    if ! kill -0 $emulator 2>/dev/null || ((SECONDS > limit)); then
        echo "run_avx512: no answer after $SECONDS s; the guest's last words:" >&2
        tail -5 "$work/serial" "$work/out" >&2 || true
        exit 124
    fi
    sleep 0.5
done
tr -d '\r' <"$work/serial" | sed -n '/^\[program\]$/,/^\[status/p' | sed '1d;$d'
exit "$(tr -d '\r' <"$work/serial" | sed -n 's/^\[status \([0-9]*\)\]$/\1/p')"
