# Perl's clocks never go back, and its sleeps are not early.
use strict;
use warnings;
use Time::HiRes qw(time sleep usleep nanosleep gettimeofday clock_gettime clock_getres alarm
    CLOCK_REALTIME CLOCK_MONOTONIC);

my $bound = $ARGV[0] / 1e9;
my @failures;
sub check { my ($holds, $words) = @_; push @failures, $words unless $holds; }

my %clocks = (
    time         => \&time,
    gettimeofday => sub { my ($s, $us) = gettimeofday(); $s * 1e6 + $us },
    realtime     => sub { clock_gettime(CLOCK_REALTIME) },
    monotonic    => sub { clock_gettime(CLOCK_MONOTONIC) },
);
for my $name (sort keys %clocks) {
    my $last = 0;
    for (1 .. 50_000) {
        my $now = $clocks{$name}->();
        check($now >= $last, "$name went back from $last to $now");
        $last = $now;
    }
}
check(clock_getres(CLOCK_MONOTONIC) == 1e-9, "the resolution is " . clock_getres(CLOCK_MONOTONIC));

my %waits = (
    sleep     => sub { sleep(0.05) },
    usleep    => sub { usleep(50_000) },
    nanosleep => sub { nanosleep(50_000_000) },
    select    => sub { select(undef, undef, undef, 0.05) },
    alarm     => sub { local $SIG{ALRM} = sub { die }; eval { alarm(0.05); select(undef, undef, undef, 5) } },
);
for my $name (sort keys %waits) {
    my $start = clock_gettime(CLOCK_MONOTONIC);
    $waits{$name}->();
    my $took = clock_gettime(CLOCK_MONOTONIC) - $start;
    check($took >= 0.05 - $bound, "$name took $took s");
}

# For the judge outside: the reading and its resolution, in nanoseconds.
my ($s, $us) = gettimeofday();
printf "realtime %d%06d000 1000\n", $s, $us;
printf "monotonic %.0f 1000\n", clock_gettime(CLOCK_MONOTONIC) * 1e9;
print "$_\n" for @failures[0 .. ($#failures > 9 ? 9 : $#failures)];
print @failures ? "failed\n" : "held\n";
exit(@failures ? 1 : 0);
