# fish completion for ibarp(8). Options and commands are those of --help.

function __ibarp_options
    command $argv[1] --help 2>/dev/null | string replace -rf '^  (-\w), (--[a-z0-9-]+)\S*(?: [A-Z]+| \[[A-Z]+\])* *(.*)$' '$1\t$3\n$2\t$3' | string split \n
    command $argv[1] --help 2>/dev/null | string replace -rf '^ {2,6}(--[a-z0-9-]+)\S*(?: [A-Z]+)* *(.*)$' '$1\t$2'
end

function __ibarp_commands
    command $argv[1] --help 2>/dev/null | sed -n -e '/^Commands/,/^$/s/^  \([a-z][a-z]*\)\( .*\)*$/\1/p' | sort -u
end

function __ibarp_interfaces
    set -l folders /run/ipoibd
    test -n "$XDG_RUNTIME_DIR"; and set -a folders $XDG_RUNTIME_DIR/ipoibd
    test -n "$IPOIBD_DIR"; and set folders $IPOIBD_DIR
    set -l inode (readlink /proc/self/ns/net | string match -r '\d+')
    for folder in $folders
        for socket in $folder/net-$inode/*/control
            test -S $socket; and path basename (path dirname $socket)
        end
    end
end

function __ibarp_addresses
    COLUMNS=1000 command $argv[1] show 2>/dev/null | awk 'NR > 1 { print $1 }'
end

function __ibarp_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -l previous $words[-1]
    set -l given $words[2..]
    if contains -- "$previous" del delete; and contains -- interface $given
        __ibarp_interfaces
        return
    end
    switch "$previous"
        case dev -i --device
            __ibarp_interfaces
            return
        case get del delete change chg replace to -a --all -d --delete -s --set -neighbour --neighbour
            __ibarp_addresses $program
            return
        case nud state
            printf '%s\n' incomplete resolving reachable stale delay probing failed permanent pinned all
            return
        case -b -batch --batch -f -file --file -password-file --password-file capture
            __fish_complete_path $current
            return
        case -sort --sort
            printf '%s\n' rate address state idle uses
            return
        case lladdr qpn gid add -serve --serve -timeout --timeout -interval --interval -count --count -C --file-size -W --files
            return
    end
    if string match -qr -- '^(-c|-color|--color)=' "$current"
        printf (string split -m1 = -- $current)[1]'=%s\n' always auto never
        return
    end
    if string match -q -- '-*' "$current"
        __ibarp_options $program
        return
    end

    set -l commands (__ibarp_commands $program)
    set -l command
    for word in $given
        if contains -- $word $commands list ls chg repl delete
            set command $word
            break
        end
    end
    switch "$command"
        case ''
            printf '%s\n' $commands dev to nud
        case show list ls
            printf '%s\n' to nud dev
        case flush
            printf '%s\n' all to nud dev
        case log
            if string match -q '*=*' -- "$current"
                printf (string split -m1 = -- $current)[1]'=%s\n' trace debug info warning error critical off
            else
                printf '%s\n' dev all=
                command $program log 2>/dev/null | awk '/^  / { print $1 "=" }' | sort -u
            end
        case add change chg replace repl
            printf '%s\n' lladdr gid dev
        case help
        case stations
            echo dev
        case groups
            printf '%s\n' -m dev
        case failover
            echo dev
            command $program info 2>/dev/null | awk '/^    (primary|backup) / { print $2 ":" $4 }' | sort -u
        case monitor
            printf '%s\n' neighbours link groups stations stats all dev
        case wait
            if test "$previous" = wait
                printf '%s\n' up down
            else
                echo dev
            end
        case interface
            if test "$previous" = interface
                printf '%s\n' show add replace del dev
            else if contains -- add $given; or contains -- replace $given
                printf '%s\n' name dev
            else
                echo dev
            end
        case '*'
            echo dev
    end
end

complete -c ibarp -f -a '(__ibarp_complete)'
