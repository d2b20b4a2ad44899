# fish completion for softib(1). The options of each subcommand are those of its --help.

function __softib_folder
    if test -n "$SOFTIB_DIR"
        echo $SOFTIB_DIR
    else if test (id -u) = 0
        echo /run/softib
    else
        echo $XDG_RUNTIME_DIR/softib
    end
end

# The options at the beginning of a line of a help, with their descriptions.
function __softib_options
    command $argv --help 2>/dev/null | string replace -rf '^ *(?:-. \[ |-., )?(--[a-z0-9-]+)(?: \])?(?: \S+)? *(.*)$' '$1\t$2'
end

# The HCAs of the subnet, without the nodes of the SM and the switch.
function __softib_hcas
    command $argv[1] show --json 2>/dev/null | grep -o '"name":"[^"]*"' | cut -d'"' -f4 | grep -v -e '^softib-sm$' -e '^softib-switch$'
end

function __softib_set
    # The words so far, without options.
    set -l given
    set -l skip 0
    for word in $argv[5..]
        if test $skip = 1
            set skip 0
        else if contains -- $word --subnet --dir
            set skip 1
        else if not string match -q -- '-*' $word
            set -a given $word
        end
    end
    switch (count $given):"$given[1]"
        case '0:*'
            printf '%s\n' hca port lid mtu link qp address partition pkey cable switch sm
        case 1:hca 1:port 1:lid 1:mtu 1:link 1:qp 1:address 1:cable 2:pkey
            __softib_hcas $argv[1]
        case 1:sm
            echo restart
        case 2:partition
            __softib_hcas $argv[1]
            echo delete
        case 2:hca
            printf '%s\n' present absent failed
        case 2:cable 3:cable
            printf '%s\n' up down flap stall width speed loss delay overruns
        case 2:switch
            printf '%s\n' present absent reset
        case 2:port
            printf '%s\n' up down init armed
        case 2:mtu
            printf '%s\n' 256 512 1024 2048 4096
        case 2:link
            printf '%s\n' off loss duplicate reorder corrupt cm-loss delay seed
        case 4:link 6:link 8:link 10:link 12:link
            printf '%s\n' loss duplicate reorder corrupt cm-loss delay seed
        case 2:qp
            echo error
        case 3:partition
            printf '%s\n' full limited none
        case 3:address
            echo delete
    end
end

function __softib_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -l command $words[2]
    if test (count $words) = 1
        printf '%s\n' subnet run roce exec lab show capture metrics set list stop topology view
        __softib_options $program
        return
    end

    # Behind the program's name, the command line is that program's.
    if contains -- "$command" run exec
        set -l rest
        set -l skip 0
        set -l begun 0
        for word in $words[3..]
            if test $begun = 1
                set -a rest $word
            else if test $skip = 1
                set skip 0
            else if contains -- $word --subnet --dir --hca --roce --address --capture --hosts --mtu
                set skip 1
            else if test "$word" = --
                set begun 1
            else if not string match -q -- '-*' $word
                set begun 1
                set -a rest $word
            end
        end
        if test $skip = 0; and begin
                test $begun = 1; or not string match -q -- '-*' "$current"
            end
            complete -C (string join ' ' -- (string escape -- $rest) "$current")
            return
        end
    end

    switch "$words[-1]"
        case --subnet
            path basename (__softib_folder)/*/
            return
        case --hca
            __softib_hcas $program
            return
        case --dir
            __fish_complete_directories $current
            return
        case --format -f
            printf '%s\n' summary net ibnetdiscover dot svg json
            return
        case --capture --output -o --write --ibnetdiscover --perfquery
            __fish_complete_path $current
            return
        case --sm
            printf '%s\n' own none
            return
        case --log
            printf '%s\n' debug info warning error off
            return
        case --mtu
            printf '%s\n' 2048 4096
            return
        case --topology
            __fish_complete_path $current
            return
        case --roce
            command ls /sys/class/net 2>/dev/null
            return
        case --lmc
            seq 0 7
            return
        case --partition --seed --watch --address --hosts --port --count --file-size --files
            return
    end
    if string match -q -- '-*' "$current"
        __softib_options $program $command
        return
    end
    switch "$command"
        case set
            __softib_set $program set $words
        case roce
            command ls /sys/class/net 2>/dev/null
        case show
            printf '%s\n' nodes switches partitions groups counters
        case lab
            if test (count $words) = 2
                printf '%s\n' up down exec show check
            else
                __fish_complete_path "$current"
            end
        case topology
            printf '%s\n' fat-tree: torus: dragonfly: line: star:
            __fish_complete_path "$current"
        case capture
            if test (count $words) = 2
                __fish_complete_path "$current"
            else
                __softib_hcas $program
            end
        case stop
            command $program list --json 2>/dev/null | grep -o -e '"subnet":"[^"]*"' -e '"folder":"[^"]*"' | cut -d'"' -f4
    end
end

complete -c softib -f -a '(__softib_complete)'
