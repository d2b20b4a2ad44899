# fish completion for ipoibd(8). The options are those of --help.

function __ipoibd_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    switch "$words[-1]"
        case --device --backup
            for port in /sys/class/infiniband/*/ports/*
                set -l parts (string split / -- $port)
                printf '%s\n' $parts[5] $parts[5]:$parts[7]
            end
        case --name
            path basename /sys/class/net/*
        case --netns
            path basename /run/netns/*
        case --create-group --strict-arp
            printf '%s\n' yes no
        case --group-mtu
            printf '%s\n' 256 512 1024 2048 4096
        case --log
            printf '%s\n' trace debug info warning error off link= sa= verbs= control= daemon=
        case --backup-reselect
            printf '%s\n' always failure
        case --poll
            printf '%s\n' event busy adaptive
        case --log-target
            printf '%s\n' stderr syslog
        case --sandbox
            printf '%s\n' on log off
        case --user
            __fish_complete_users
        case --group --control-group
            __fish_complete_groups
        case --pid-file --config --neighbour-file
            __fish_complete_path $current
        case --port --pkey --vlan --ethernet-stations --gid-index --mtu --scope '--group-*' --neighbours --unresolved --arp-rate --cpu --receive-queue --send-queue
            return
        case '*'
            command $words[1] --help 2>/dev/null | string replace -rf '^ +(?:-. \[ )?(--[a-z0-9-]+)(?: \])?(?: \S+)? *(.*)$' '$1\t$2'
    end
end

complete -c ipoibd -f -a '(__ipoibd_complete)'
