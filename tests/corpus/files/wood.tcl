proc coppice {stool years} {
    if {$years == 0} { return $stool }
    return [coppice "$stool+" [expr {$years - 1}]]
}
array set trees {oak 3 ash 9 hazel 14}
foreach kind [lsort [array names trees]] { puts [format "%-6s %2d %s" $kind $trees($kind) [coppice $kind 3]] }
set copy [open copy.txt w]
set in [open [lindex $argv 0]]
while {[gets $in line] >= 0} { if {[regexp {^\w+ (\d+)$} $line -> n]} { puts $copy [expr {$n ** 7}] } }
close $copy
puts "[exec wc -l < copy.txt] [llength $argv]"
if {[catch {error "on purpose"} message]} { puts stderr "caught: $message" }
